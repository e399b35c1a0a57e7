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
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict

from index.encoders import Vectors
from index.errors import (
    CollectionCorrupt,
    CollectionLocked,
    CollectionMismatch,
    CollectionNotFound,
    InvalidName,
    StorageError,
)
from index.filters import Filters
from index.lexical import Bm25s, LexicalIndex, NoTerms
from index.query import Passage, Where
from index.records import Records
from index.stores import Mask, Neighbours, OpenTerms, StoreSpec, load_store
from text.files import sync, write_text
from text.languages import ENGLISH
from text.names import NAME_RULE, is_name

if TYPE_CHECKING:
    from index.encoders import Encoder


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
    language: str = ENGLISH
    """The setting by which the words were stemmed."""
    languages: tuple[str, ...] = (ENGLISH,)
    """Languages whose stems it holds."""
    files: dict[str, str] = {}
    """SHA-256 of the version's files by relative path (`index.version`); empty in versions written without."""


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Force every file of the version to the disk, then the manifest with their checksums, which makes it complete."""
    for parent, _, names in os.walk(folder):
        for name in names:
            sync(Path(parent) / name)
        sync(Path(parent))
    sealed = manifest.model_copy(update={"files": checksums(folder)})
    write_text(folder / _MANIFEST, sealed.model_dump_json(indent=2))


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a complete version; raises FileNotFoundError, or CollectionCorrupt for what is none."""
    path = folder / _MANIFEST
    text = path.read_bytes()
    try:
        values = json.loads(text)
        manifest = Manifest.model_validate(values)
    except (ValueError, KeyError, TypeError) as error:
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


def checksums(folder: Path) -> dict[str, str]:
    """SHA-256 (hex) of every file below `folder`, by relative path with forward slashes; sorted. Raises OSError."""
    return {name: _digest(folder / name, None) for name in sorted(_files(folder))}


def damaged(
    folder: Path, checksums: Mapping[str, str], only: tuple[str, ...] = (), pace: Pace | None = None
) -> list[str]:
    """Names in `known` whose files are missing or not as they were; with `only`, of those that begin with one of it."""
    names = [name for name in checksums if name.startswith(only or ("",))]
    return [name for name in names if _now(folder / name, pace) != checksums[name]]


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


class Generation:
    """An open version; stays usable until everyone who uses it has let go and it is retired."""

    def __init__(self, version: Version, encoder: Encoder, store: StoreSpec, watch: Watch) -> None:
        self.watch = watch
        manifest = version.manifest
        if (manifest.encoder, manifest.dimension) != (encoder.name, encoder.dimension):
            raise CollectionMismatch(
                f"{version.folder} was indexed with the embedding model {manifest.encoder!r}, and {encoder.name!r} "
                "was asked for: index again with this model (the workbench has a button), or name that one as "
                "`index.encoder`"
            )
        if manifest.store != store:
            raise CollectionMismatch(
                f"the vectors of {version.folder} are in the store {manifest.store}, and {store} was asked for: "
                "index again, or correct `index.store` and `index.store_url`"
            )
        if not version.records.is_file():
            raise CollectionCorrupt(f"{version.records} is missing: index again")
        self.manifest = manifest
        self.records = Records(version.records)
        try:
            ids = self.records.passage_ids()
            self._row = {name: row for row, name in enumerate(ids)}
            self._documents = self.records.documents_by_row()
            self._vectors = load_store(store).open(version.folder, ids, manifest.dimension) if ids else None
            self._lexical = self._open_lexical(version)
        except BaseException:
            self.records.close()
            raise
        self._filters = Filters(self.records, len(ids))
        self._users = 0
        self._retired = False
        self._lock = threading.Lock()

    def _open_lexical(self, version: Version) -> LexicalIndex:
        if not version.manifest.terms:
            return NoTerms()
        languages = version.manifest.languages
        if isinstance(self._vectors, OpenTerms):
            return self._vectors.terms(languages)
        return Bm25s.load(version.lexical, languages)

    def mask(self, where: Where | None) -> Mask | None:
        """Which rows a filter allows; None where there is no filter."""
        return self._filters.mask(where) if where else None

    def lexical(self, text: str, k: int, mask: Mask | None) -> list[int]:
        """Rows by BM25, best first."""
        return self._lexical.search(text, k, mask)

    def dense(self, vectors: Vectors, k: int, mask: Mask | None) -> list[Neighbours]:
        """Rows by similarity to each vector, best first, with their cosines."""
        if self._vectors is None:
            return [Neighbours([], []) for _ in vectors]
        return self._vectors.search(vectors, k, mask)

    def vectors(self, ids: Sequence[str]) -> Vectors:
        """Vectors of these passages, in their order; raises KeyError."""
        rows = [self._row[name] for name in ids]
        if self._vectors is None or not rows:
            return np.zeros((0, self.manifest.dimension), dtype=np.float32)
        return self._vectors.take(rows)

    def document_of(self, row: int) -> int:
        """A number for the document of a row."""
        return int(self._documents[row])

    def passages(self, rows: Sequence[int]) -> list[Passage]:
        return self.records.passages(rows)

    def acquire(self) -> None:
        """One more uses this version; `release` must follow."""
        with self._lock:
            self._users += 1

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            done = self._retired and not self._users
        if done:
            self._close()

    def retire(self) -> None:
        """Close as soon as the last user has let go."""
        with self._lock:
            if self._retired:
                return
            self._retired = True
            done = not self._users
        if done:
            self._close()

    def _close(self) -> None:
        self.records.close()
        if self._vectors is not None:
            self._vectors.close()


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

    def check(self, *only: str, pace: Pace | None = None) -> None:
        """Raise CollectionCorrupt where files are not as they were written; with `only`, those that begin so."""
        if names := damaged(self.folder, self.manifest.files, only, pace):
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
        named = self.named()
        try:
            # A folder without a manifest is what a killed writer left.
            there = [path.parent.name for path in self.versions.glob("*/manifest.json")]
        except OSError:
            there = []
        return [
            *filter(None, [named]),
            *sorted((name for name in there if name != named and _VERSION.fullmatch(name)), reverse=True),
        ]

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
        try:
            in_use = {named, self.version(named or "none").manifest.previous}
        except (FileNotFoundError, CollectionCorrupt):
            in_use = {named, *(name for name in self.candidates() if self._complete(name))}
        return sorted(folder for folder in self.versions.iterdir() if folder.name not in in_use)

    def _complete(self, name: str) -> bool:
        try:
            self.version(name)
        except (FileNotFoundError, CollectionCorrupt):
            return False
        return True

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
