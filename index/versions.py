"""Where a collection lies on disk: its folder, its versions, the one that serves, its writer's lock.

    <root>/<name>/current             id of the version that serves
    <root>/<name>/versions/<id>/      records.sqlite, lexical/, vectors…, manifest.json
    <root>/<name>/vectors.sqlite      vectors of an unfinished run
    <root>/<name>/pool.json           which passages are searched, where these are not the sections
    <root>/<name>/lock, writer.json   held by the writer, and who that is

The newest version serves and the one before it stays for readers that have not moved on. Any other
folder is what a killed writer left, and the next writer removes it. What lies in the files is known
to the modules that write them.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from index.errors import CollectionCorrupt, CollectionLocked, CollectionNotFound, InvalidName, StorageError
from index.integrity import Pace, damaged
from index.manifest import Manifest, read_manifest
from text.files import write_text
from text.names import NAME_RULE, is_name

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
            kept = {named, self.version(named or "none").manifest.previous}
        except (FileNotFoundError, CollectionCorrupt):
            kept = {named, *(name for name in self.candidates() if self._complete(name))}
        return sorted(folder for folder in self.versions.iterdir() if folder.name not in kept)

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
