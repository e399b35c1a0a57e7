"""What a connector is: whoever follows a kind of source keeps this contract (`testing.connector` checks it)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol, TypeAlias

PICTURES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
SMALL = 32 * 1024
"""Bytes of a file that is no document and comes along all the same: documents quote code that lies beside them."""

Pause: TypeAlias = Callable[[float], None]
"""Waits so many seconds, 0 too; raises IndexingCancelled where the work should stop."""


@dataclass(frozen=True, slots=True)
class Item:
    """What a source says of one of its documents.

    `key` names it there and stays when it changes. `version` is the connector's own mark of what it saw: with the mark
    that is known, `content` is None and the document is as it was. `url` is where a person opens it, empty where
    nowhere; `suffix` the ending of its file where the key has another. `gone` says that it was seen to be deleted;
    with a `problem` it could not be read, and stays as it was.
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
    """What is kept of a document: the version that was seen, and the file that holds it."""

    version: str
    path: Path


class Connector(Protocol):
    """Reads one source. Used by one thread at a time; `items` may be called again."""

    @property
    def lists_all(self) -> bool:
        """Whether what `items` does not name is deleted, once it has come to its end without an error."""

    def items(self, known: Mapping[str, Known], pause: Pause) -> Iterator[Item]:
        """What there is now, each key once; `known` is what is kept, by key.

        `pause` is called before every request or file. Raises SourceError where the source cannot be read (on): what
        was not named until then stays. Raises whatever `pause` raises.
        """

    def close(self) -> None:
        """Let go of connections and processes."""


def same(known: Known | None, version: str) -> bool:
    """Whether a document is kept in this version."""
    return known is not None and known.version == version


def worth_keeping(name: str, size: int) -> bool:
    """Whether a file of a source is a document, or something that documents show or quote."""
    from index.loaders.files import suffixes

    path = PurePosixPath(name)
    if any(part.startswith(".") or part in ("node_modules", "__pycache__") for part in path.parts):
        return False
    return path.suffix.lower() in suffixes() | PICTURES or size <= SMALL


def too_large(size: int, max_bytes: int) -> str:
    """The problem of a document of so many bytes; empty where it may have them."""
    if size <= max_bytes:
        return ""
    return f"it is {size >> 20} MiB, above the limit of {max_bytes >> 20} MiB (index.max_file_mb)"
