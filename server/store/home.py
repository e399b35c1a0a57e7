"""A home folder: the lock of its one server, its backup in one file, and its restoring as a whole or not at all.

The operating system releases the lock however its process ends; a note beside it names the holder. A backup is a tar
file: a manifest, the database as SQLite's online backup copies it, of each collection the version that serves, uploads,
settings, and what training, measuring and making dialogs left. Models are left out unless asked for.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sqlite3
import stat
import tarfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Literal

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, ValidationError

from index.errors import CollectionCorrupt, CollectionNotFound, InvalidName
from index.version import CollectionFolder
from server.store.database import Database, find_damage, read_only
from server.store.jobs import any_alive
from server.store.records import BackupError, HomeBusy
from text.files import is_name, replacing, write_text

log = logging.getLogger(__name__)

DATABASE, COLLECTIONS, MODELS = "anaphora.db", "collections", "models"
_RUNS = ("rewriters", "synth", "adapt", "eval", "diagnose", "gold")
PARTS = (DATABASE, "anaphora.toml", "ask_history", COLLECTIONS, "uploads", "sources", *_RUNS)
"""The parts of a home that a backup holds; `MODELS` is added where it is asked for."""

_MANIFEST, _MANIFEST_BYTES = "backup.json", 1 << 16
_RESERVE = 64 << 20
_ATTEMPTS = 5
_UNSOUND = (tarfile.TarError, EOFError, zlib.error, ValueError, FileExistsError, IsADirectoryError, NotADirectoryError)
_PASSING = shutil.ignore_patterns(
    *("*.lock", "*.part", "*.partial", "*.new", "*lock", "*writer.json", ".partial*", ".deleted-*", "checkpoint-*")
)
"""Names of files and folders that belong to a running process."""


@contextmanager
def hold_home(home: Path, *, claim: str = "home", doing: str = "anaphora serve") -> Iterator[None]:
    """Keep other processes from the same `claim` on a home; `doing` is what they are told this one does.

    Raises HomeBusy at once where another has it, OSError where the folder cannot be written to.
    """
    home.mkdir(parents=True, exist_ok=True)
    note = home / f"{claim}.json"
    # Not of one thread: a test takes it in one and lets go of it in another.
    lock = FileLock(home / f"{claim}.lock", timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise HomeBusy(
            f"{home} is in use by {_holder(note)}. End that process first, or choose another folder with --home."
        ) from None
    try:
        write_text(note, json.dumps({"pid": os.getpid(), "doing": doing, "since": time.time()}))
        yield
    finally:
        note.unlink(missing_ok=True)
        lock.release()


def _holder(note: Path) -> str:
    try:
        holder = json.loads(note.read_text("utf-8"))
        since = datetime.fromtimestamp(holder["since"]).astimezone()
        return f"`{holder['doing']}`, process {holder['pid']}, since {since:%Y-%m-%d %H:%M:%S %Z}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


class BackupManifest(BaseModel):
    """Description of a backup; its first member."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    version: str
    created: float
    parts: tuple[str, ...]


def back_up(
    home: Path, file: Path, *, models: bool = False, warn: Callable[[str], None] = log.warning
) -> BackupManifest:
    """Write a backup of `home` to `file`, which only its owner may read; compressed where its name ends in `gz`.

    `warn` is called for each collection whose newest version is damaged; the version before is taken. Raises
    BackupError, HomeBusy (another backup is being made), StoreError or OSError.
    """
    if file.exists():
        raise BackupError(f"{file} exists; choose another name, or delete it first.")
    if not home.is_dir():
        raise BackupError(f"There is no home {home} to back up.")
    parts = (*PARTS, MODELS) if models else PARTS
    manifest = BackupManifest(version=version("anaphora"), created=time.time(), parts=parts)
    draft = home / ".backup"
    with hold_home(home, claim="backup", doing="anaphora backup"), replacing(file) as target:
        target.chmod(0o600)
        shutil.rmtree(draft, ignore_errors=True)
        try:
            draft.mkdir(mode=0o700)
            (draft / _MANIFEST).write_text(manifest.model_dump_json(), "utf-8")
            for part in parts:
                _copy_part(home / part, draft / part, warn)
            with tarfile.open(target, "w:gz" if file.suffix in (".gz", ".tgz") else "w") as archive:
                for name in (_MANIFEST, *parts):
                    if (draft / name).exists():
                        archive.add(draft / name, name)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return manifest


def _copy_part(source: Path, target: Path, warn: Callable[[str], None]) -> None:
    if source.name == DATABASE and source.exists():
        _copy_database(source, target)
    elif source.name == COLLECTIONS:
        for name in sorted(folder.parent.name for folder in source.glob("*/versions")):
            if is_name(name):
                _copy_collection(CollectionFolder(source, name), CollectionFolder(target, name), warn)
    elif source.is_dir():
        with suppress(FileNotFoundError):
            _copy_tree(source, target)
    elif source.is_file():
        shutil.copy2(source, target)


def _copy_database(source: Path, target: Path) -> None:
    target.touch(0o600)
    try:
        with closing(sqlite3.connect(source, timeout=10.0)) as live, closing(sqlite3.connect(target)) as copy:
            live.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise BackupError(f"The database {source} could not be copied: {error}.") from error
    if problem := find_damage(target):
        raise BackupError(
            f"The database {source} is damaged ({problem}). Restore an earlier backup, or move the file away and back "
            "up what is left."
        )
    # What a newer version keeps elsewhere would be missing.
    with read_only(source):
        target.chmod(stat.S_IMODE(source.stat().st_mode))


def _copy_collection(folder: CollectionFolder, copy: CollectionFolder, warn: Callable[[str], None]) -> None:
    """Copy the version that serves and the small files beside it. A finished version never changes, but it may go."""
    problem = ""
    for _ in range(_ATTEMPTS):
        problem = ""
        for name in (candidates := folder.candidates()):
            try:
                _copy_tree(folder.versions / name, copy.versions / name)
                copy.version(name).check()
            except (FileNotFoundError, shutil.Error, CollectionCorrupt) as error:
                gone = not isinstance(error, CollectionCorrupt)
                problem = problem or (f"the version {name} is incomplete, or is gone ({error})" if gone else str(error))
                shutil.rmtree(copy.path, ignore_errors=True)
                continue
            for file in sorted(folder.path.iterdir()):
                passing = _PASSING(str(folder.path), [file.name]) or file.suffix == ".sqlite"
                if file.is_file() and not file.is_symlink() and not passing:
                    shutil.copy2(file, copy.path)
            copy.switch(name)
            # While a version serves, nobody removes it.
            if folder.candidates()[:1] == candidates[:1]:
                if problem:
                    older = f"The collection {folder.name} is backed up in an older version, {name}: {problem}."
                    warn(f"{older} Index it again.")
                return
            shutil.rmtree(copy.path, ignore_errors=True)
            break
        if not candidates:
            return
    raise BackupError(
        f"The collection {folder.name} has no sound version ({problem}), or gets new ones all the time. Try again "
        "when nothing indexes it; if that does not help, index it again, or run "
        f"`anaphora collections delete {folder.name}`."
    )


def _copy_tree(source: Path, target: Path) -> None:
    """Copy a folder with its modes; links and pipes are left out. Raises FileNotFoundError, shutil.Error."""

    def ignored(place: str, names: list[str]) -> set[str]:
        paths = [Path(place, name) for name in names]
        others = {path.name for path in paths if path.is_symlink() or not (path.is_file() or path.is_dir())}
        return others | set(_PASSING(place, names))

    shutil.copytree(source, target, ignore=ignored, copy_function=_link)


def _link(source: str, target: str) -> None:
    """Link a file: what is replaced when it changes needs no copy. Copy it where that is not so, or cannot be."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def restore(home: Path, file: Path, *, without: Sequence[str] = ()) -> BackupManifest:
    """Make `home` what it was when `file` was written; parts that the backup does not cover stay as they are.

    The collections `without` are left out, and are gone then. Everything is unpacked and checked beside the old
    files first; these are put back where the switch fails. Raises HomeBusy while a process uses the home, BackupError
    for a file that is no sound backup, CollectionNotFound for one of `without` that is not in it, StoreError, OSError.
    """
    work = home / ".restoring"
    with hold_home(home, doing="anaphora restore"):
        if any_alive(home / "run"):
            raise BackupError(f"A command such as `anaphora ask` is using {home}. End it, and restore again.")
        undo(home)
        try:
            (work / "new").mkdir(parents=True, mode=0o700)
            manifest = _unpack(file, work / "new")
            collections = work / "new" / COLLECTIONS
            names = sorted(folder.name for folder in collections.iterdir()) if collections.is_dir() else []
            for name in without:
                if name not in names:
                    raise CollectionNotFound(
                        f"There is no collection {name!r} in {file}, which holds {', '.join(names) or 'none'}; nothing "
                        "was changed."
                    )
                shutil.rmtree(collections / name)
            _check(work / "new")
            _switch(home, work, manifest.parts)
        except BaseException:
            undo(home)
            raise
        # From here on nothing is put back, whatever becomes of this process.
        (work / "old").rename(work / "replaced")
        shutil.rmtree(work)
    return manifest


def unfinished(home: Path) -> bool:
    """Whether a restoring of this home was killed midway: it must be begun again, or `undo`ne."""
    return (home / ".restoring" / "old").is_dir()


def undo(home: Path) -> None:
    """Put back what an unfinished restoring has moved away."""
    work = home / ".restoring"
    for part in sorted((work / "old").glob("*")):
        place = home / part.name.removesuffix(".absent")
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
        if part.suffix != ".absent":
            part.rename(place)
    with suppress(FileNotFoundError):
        shutil.rmtree(work)


def _switch(home: Path, work: Path, parts: Sequence[str]) -> None:
    """Move each part of the home away and the restored one into its place; `old` tells `undo` what was there."""
    os.sync()
    (work / "old").mkdir(mode=0o700)
    for name in (*parts, *((f"{DATABASE}-wal", f"{DATABASE}-shm") if DATABASE in parts else ())):
        if os.path.lexists(home / name):
            (home / name).rename(work / "old" / name)
        else:
            (work / "old" / f"{name}.absent").touch()
        if (work / "new" / name).exists():
            (work / "new" / name).rename(home / name)


def _unpack(file: Path, target: Path) -> BackupManifest:
    """Unpack a backup; nothing in it can reach beyond `target` or become anything but files and folders."""

    def checked(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo:
        parts = PurePosixPath(member.name).parts
        if ".." in parts or parts[:1] == () or parts[0] not in (*manifest.parts, _MANIFEST):
            raise BackupError(f"{file} is no backup to trust: it holds the path {member.name[:200]!r}.")
        if not (member.isreg() or member.isdir()) or (member.isreg() and (target / member.name).exists()):
            raise BackupError(f"{file} is no backup to trust: {member.name[:200]!r} does not belong there.")
        if shutil.disk_usage(target).free < member.size + _RESERVE:
            raise BackupError(f"The disk has no room for {file}; nothing was changed. Free some space.")
        return tarfile.tar_filter(member, path)

    try:
        with tarfile.open(file) as archive:
            manifest = _read_manifest(archive)
            archive.extractall(target, filter=checked)
    except _UNSOUND as error:
        raise BackupError(f"{file} is no sound backup of Anaphora ({error}); nothing was changed.") from error
    (target / _MANIFEST).unlink()
    return manifest


def _read_manifest(archive: tarfile.TarFile) -> BackupManifest:
    first = archive.next()
    source = archive.extractfile(first) if first and first.isreg() and first.name == _MANIFEST else None
    if source is None:
        raise BackupError(f"{archive.name!s} was not written by `anaphora backup`; nothing was changed.")
    try:
        manifest = BackupManifest.model_validate_json(source.read(_MANIFEST_BYTES))
    except ValidationError as error:
        raise BackupError(
            f"{archive.name!s} was written by a version of Anaphora that this one does not know; nothing was changed."
        ) from error
    if strange := sorted(set(manifest.parts) - {*PARTS, MODELS}):
        raise BackupError(f"{archive.name!s} is no backup to trust: it would replace {strange[0][:200]!r}.")
    return manifest


def _check(folder: Path) -> None:
    """Raise BackupError for a damaged database or collection, StoreError for a database of a newer version."""
    database, root = folder / DATABASE, folder / COLLECTIONS
    if database.exists():
        Database(database).close()
        database.with_name(f"{DATABASE}.lock").unlink(missing_ok=True)
        if problem := find_damage(database):
            raise BackupError(f"The database in the backup is damaged ({problem}); nothing was changed.")
    for name in sorted(versions.parent.name for versions in root.glob("*/versions")):
        try:
            collection = CollectionFolder(root, name)
            collection.version(collection.named() or "none").check()
        except (FileNotFoundError, CollectionCorrupt, InvalidName) as error:
            raise BackupError(
                f"The collection {name!r} in the backup is damaged ({error}); nothing was changed. Restore another "
                "backup, or this one with `--without` and that name."
            ) from error
