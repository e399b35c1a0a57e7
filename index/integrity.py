"""Checksums of a version's files: taken when it is written, compared when it is opened.

Disks lie, and a flipped bit in a vector or a word list would only show as worse answers. A folder of a vector store's
own (`vectors/`) is left to that store: it may write into it when it opens it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

STORE_FOLDER = "vectors"


def checksums(folder: Path) -> dict[str, str]:
    """SHA-256 (hex) of every file below `folder`, by relative path with forward slashes; sorted. Raises OSError."""
    return {name: _digest(folder / name) for name in sorted(_files(folder))}


def damaged(folder: Path, known: Mapping[str, str], only: tuple[str, ...] = ()) -> list[str]:
    """Names in `known` whose files are missing or not as they were; with `only`, of those that begin with one of it."""
    return [name for name, digest in known.items() if name.startswith(only or ("",)) and _now(folder / name) != digest]


def _files(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        relative = path.relative_to(folder)
        if path.is_file() and relative.parts[0] != STORE_FOLDER:
            yield relative.as_posix()


def _now(path: Path) -> str:
    try:
        return _digest(path)
    except OSError:
        return ""


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
