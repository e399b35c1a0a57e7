"""The manifest of a collection's version, and the two writes that make a version count.

A version is a folder. It counts once its manifest, written last, lies in it; it serves once the
`current` file, replaced in one step, names it. Both survive a crash at any moment.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict

from index.errors import CollectionCorrupt, CollectionLocked, CollectionNotFound, InvalidName, StorageError
from index.stores import StoreSpec
from text.files import NAME_RULE, is_name, sync, write_text

FORMAT = 3
"""Of the files of a version: raise it when old versions cannot be reused."""

TEXTS = 1
"""Of how texts become passages and terms: raise it, and the format, when files are to be read again."""

_MANIFEST = "manifest.json"


class Manifest(BaseModel):
    """Content of a version and the settings it was made with; `created` in seconds since the epoch."""

    model_config = ConfigDict(frozen=True)

    format: int
    version: str
    previous: str
    created: float
    encoder: str
    dimension: int
    store: StoreSpec
    documents: int
    passages: int
    terms: bool
    language: str
    """The setting by which the words were stemmed."""
    languages: tuple[str, ...]
    """Languages whose stems it holds."""
    without_vector: int = 0
    """Passages that only words find so far: the next run embeds them."""
    files: dict[str, str] = {}
    """SHA-256 of the version's files by relative path."""


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Force every file of the version to the disk, then the manifest with their checksums, which makes it complete."""
    for parent, _, names in os.walk(folder):
        for name in names:
            sync(Path(parent) / name)
        sync(Path(parent))
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    sealed = manifest.model_copy(update={"files": {name: _digest(folder / name) for name in names}})
    write_text(folder / _MANIFEST, sealed.model_dump_json(indent=2))


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a complete version; raises FileNotFoundError, or CollectionCorrupt for what is none."""
    path = folder / _MANIFEST
    text = path.read_bytes()
    try:
        manifest = Manifest.model_validate_json(text)
    except ValueError as error:
        raise CollectionCorrupt(f"{path} is not a manifest ({error}): index again") from error
    if manifest.format != FORMAT:
        raise CollectionCorrupt(
            f"{folder} was written in format {manifest.format}, and this program reads format {FORMAT}: "
            "delete the collection and index again"
        )
    return manifest


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


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _digest(path: Path, pace: Pace | None = None) -> str:
    """SHA-256 (hex) of a file; empty where it cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb", buffering=0) as file:
            while piece := file.read(PIECE):
                digest.update(piece)
                if pace:
                    pace.read(file.fileno(), file.tell() - len(piece), len(piece))
    except OSError:
        return ""
    return digest.hexdigest()


_VERSION = re.compile(r"[0-9]{6,}-[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class Version:
    """A complete version: its folder and its manifest."""

    folder: Path
    manifest: Manifest

    @property
    def records(self) -> Path:
        return self.folder / "records.sqlite"

    @property
    def lexical(self) -> Path:
        return self.folder / "lexical"

    @property
    def vector_rows(self) -> Path:
        """The rows, ascending, that have vectors; the file is there only while some have none."""
        return self.folder / "vectors.rows.npy"

    def rows_with_vectors(self) -> npt.NDArray[np.int64] | None:
        """Return the rows that have vectors, in the order of the vector store; None if all have. Raises OSError."""
        return np.load(self.vector_rows, allow_pickle=False) if self.manifest.without_vector else None

    def damaged(self, *only: str, pace: Pace | None = None) -> list[str]:
        """Files that are missing or not as they were written; with `only`, of those whose names begin so."""
        expected = {name: digest for name, digest in self.manifest.files.items() if name.startswith(only or ("",))}
        return [name for name, digest in expected.items() if _digest(self.folder / name, pace) != digest]

    def check(self, *only: str, pace: Pace | None = None) -> None:
        """Raise CollectionCorrupt where files are not as they were written; with `only`, those that begin so."""
        if names := self.damaged(*only, pace=pace):
            raise CollectionCorrupt(f"{', '.join(names[:3])} in {self.folder} changed since written, or is missing")


class CollectionFolder:
    """The folder of one collection; whether it exists is asked where it matters."""

    def __init__(self, root: Path, name: str) -> None:
        if not is_name(name):
            raise InvalidName(f"a collection cannot be called {name!r}: use {NAME_RULE}")
        self.root = root
        self.name = name
        self.path = root / name
        self.versions = self.path / "versions"
        self.journal = self.path / "vectors.sqlite"
        self._pointer = self.path / "current"
        self._writer = self.path / "writer.json"

    def named(self) -> str:
        """The id of the version that should serve; empty where the file `current` is missing or damaged."""
        try:
            version = self._pointer.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            return ""
        return version if _VERSION.fullmatch(version) else ""

    def candidates(self) -> list[str]:
        """Ids of what may serve, the best first: the version that is named, then all others, the newest first."""
        named, there = self.named(), list[str]()
        with suppress(OSError):
            # A folder without a manifest is what a killed writer left.
            there = [path.parent.name for path in self.versions.glob("*/manifest.json")]
        others = sorted((name for name in there if name != named and _VERSION.fullmatch(name)), reverse=True)
        return [named, *others] if named else others

    def require(self) -> None:
        """Raise CollectionNotFound where there is nothing of a collection."""
        if not self.candidates():
            raise CollectionNotFound(f"there is no collection {self.name!r}")

    def sound(self, *only: str) -> Iterator[Version]:
        """The candidates that are complete and as they were written; with `only`, as far as their files begin so."""
        for name in self.candidates():
            with suppress(FileNotFoundError, CollectionCorrupt):
                version = self.version(name)
                version.check(*only)
                yield version

    def version(self, version: str) -> Version:
        """A complete version by id; raises FileNotFoundError where it is not."""
        folder = self.versions / version
        return Version(folder, read_manifest(folder))

    def new_version(self, after: str) -> Path:
        """An empty folder for a version to be written, with an id that was never used before."""
        number = int(after.split("-")[0]) + 1 if after else 1
        folder = self.versions / f"{number:06d}-{secrets.token_hex(4)}"
        folder.mkdir(parents=True)
        return folder

    def switch(self, version: str) -> None:
        """Make a complete version the one that serves."""
        write_text(self._pointer, version)

    def stale(self) -> list[Path]:
        """Folders of versions that neither serve nor served last; where it is not clear which, incomplete ones."""
        if not self.versions.is_dir():
            return []
        named = self.named()
        complete = dict[str, Manifest]()
        for name in self.candidates():
            with suppress(FileNotFoundError, CollectionCorrupt):
                complete[name] = self.version(name).manifest
        in_use = {named, complete[named].previous} if named in complete else {named, *complete}
        return sorted(folder for folder in self.versions.iterdir() if folder.name not in in_use)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the collection as its one writer; raises CollectionLocked at once if there is another."""
        with storage_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / "lock")
            try:
                lock.acquire(timeout=0)
            except Timeout:
                raise CollectionLocked(f"collection {self.name!r} is being written {self._who()}: try later") from None
        try:
            with storage_errors(self.path):
                self._writer.write_text(json.dumps({"pid": os.getpid(), "since": time.time()}), "utf-8")
            yield
        finally:
            self._writer.unlink(missing_ok=True)
            lock.release()

    def _who(self) -> str:
        try:
            writer = json.loads(self._writer.read_text("utf-8"))
            since = datetime.fromtimestamp(writer["since"]).astimezone()
            return f"by process {writer['pid']} since {since:%Y-%m-%d %H:%M:%S %Z}"
        except (OSError, ValueError, KeyError, TypeError):
            return "by another process"

    def remove(self) -> None:
        """Take the whole collection away; readers that have it open keep reading."""
        with self.writing(), storage_errors(self.path):
            grave = self.root / f".deleted-{self.name}-{secrets.token_hex(4)}"
            self.path.rename(grave)
            shutil.rmtree(grave, ignore_errors=True)


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn a failed write into StorageError, which says what to do about it."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise failed_write(path, error) from error


def failed_write(path: Path, error: OSError | sqlite3.Error) -> StorageError:
    """Says what happened and what to do."""
    full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or "is full" in str(error)
    advice = "the disk is full: make room and index again" if full else "index again once that is mended"
    return StorageError(f"writing {path} failed ({error}); the last good version still serves; {advice}")
