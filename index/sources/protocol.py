"""Contract of a connector: every kind of source keeps it (`testing.connector` checks it)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol, TypeAlias

_PICTURES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
# A smaller file comes along though it is no document: documents quote code that lies beside them.
_SMALL = 32 * 1024

Pause: TypeAlias = Callable[[float], None]
"""Waits so many seconds, 0 too; raises IndexingCancelled where the work should stop."""


@dataclass(frozen=True, slots=True)
class Item:
    """Report of a source about one of its documents.

    `key` names it there and stays when it changes. `version` is the connector's own mark of what it saw: `content` is
    None where that is kept already. `url` is where a person opens it, empty where nowhere; `suffix` the ending of its
    file where the key has another. `gone`: it was seen to be deleted; with a `problem` it stays as it was.
    """

    key: str
    version: str = ""
    content: bytes | None = None
    url: str = ""
    title: str = ""
    suffix: str = ""
    problem: str = ""
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """A mirrored document: the version that was seen, and the file that holds it."""

    version: str
    path: Path


class Connector(Protocol):
    """Reads one source; used by one thread at a time. `lists_all`: what `items` does not name is deleted, once it has
    come to its end."""

    @property
    def lists_all(self) -> bool: ...

    def items(self, known: Mapping[str, Known], pause: Pause) -> Iterator[Item]:
        """List the present documents, each key once; `known` is what is kept, by key.

        `pause` is called before every request or file, and what it raises is passed on. Raises SourceError where the
        source cannot be read (on): what was not named until then stays.
        """

    def close(self) -> None: ...


def same(stored: Known | None, version: str) -> bool:
    """Whether a document is kept in this version."""
    return stored is not None and stored.version == version


def worth_keeping(name: str, size: int) -> bool:
    """Whether a file of a source is a document, or something that documents show or quote."""
    from index.loaders.files import suffixes

    path = PurePosixPath(name)
    hidden = any(part.startswith(".") or part in ("node_modules", "__pycache__") for part in path.parts)
    return not hidden and (path.suffix.lower() in suffixes() | _PICTURES or size <= _SMALL)


def too_large(size: int, most: int) -> str:
    """The problem of a document of so many bytes; empty where it may have them."""
    return f"it has {size >> 20} MiB, and {most >> 20} are allowed (index.max_file_mb)" if size > most else ""
