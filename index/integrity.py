"""Checksums of a version's files: taken when it is written, compared when it is opened and now and then after that.

Disks lie, and a flipped bit in a vector or a word list would only show as worse answers. A version's files never
change, so a size or a time that does tells of damage at once, for the price of asking.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

PIECE = 1 << 20
"""Bytes read at once."""


class Pace:
    """Holds reading down to some bytes a second, and leaves what it read out of the system's cache of files."""

    def __init__(
        self, rate: float, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._rate = rate
        self._clock = clock
        self._sleep = sleep
        self._due = clock()

    def read(self, descriptor: int, start: int, count: int) -> None:
        """So many bytes of a file were read from `start` on: wait until that was slow enough."""
        if hasattr(os, "posix_fadvise"):
            # Linux keeps the pages that a process has mapped, which are those that searches use.
            os.posix_fadvise(descriptor, start, count, os.POSIX_FADV_DONTNEED)
        # A pause by somebody else is not made up for.
        self._due = max(self._due, self._clock() - count / self._rate) + count / self._rate
        self._sleep(max(0.0, self._due - self._clock()))


class Watch:
    """The sizes and times that files had when this was made."""

    def __init__(self, folder: Path, names: Collection[str]) -> None:
        self._seen = {path: stamp for path in (str(folder / name) for name in names) if (stamp := _stamp(path))}

    def changed(self, *, missing: bool = False) -> bool:
        """Whether a file is another than it was; one that is gone, which its readers keep, only if `missing`."""
        return any((now := _stamp(path)) != seen and (now or missing) for path, seen in self._seen.items())


def checksums(folder: Path) -> dict[str, str]:
    """SHA-256 (hex) of every file below `folder`, by relative path with forward slashes; sorted. Raises OSError."""
    return {name: _digest(folder / name, None) for name in sorted(_files(folder))}


def damaged(folder: Path, known: Mapping[str, str], only: tuple[str, ...] = (), pace: Pace | None = None) -> list[str]:
    """Names in `known` whose files are missing or not as they were; with `only`, of those that begin with one of it."""
    names = [name for name in known if name.startswith(only or ("",))]
    return [name for name in names if _now(folder / name, pace) != known[name]]


def _files(folder: Path) -> Iterator[str]:
    return (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _now(path: Path, pace: Pace | None) -> str:
    try:
        return _digest(path, pace)
    except OSError:
        return ""


def _digest(path: Path, pace: Pace | None) -> str:
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while piece := file.read(PIECE):
            digest.update(piece)
            if pace:
                pace.read(file.fileno(), file.tell() - len(piece), len(piece))
    return digest.hexdigest()
