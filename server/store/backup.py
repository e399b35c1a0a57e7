"""A home in one file, and back: consistent under a running server, and restored as a whole or not at all.

A backup is a tar file: a manifest, the database as SQLite's online backup copies it, of each collection the version
that serves, uploads, settings, and what training, measuring and making dialogs left. Models are left out unless asked
for: they can be fetched again. The content of a restored home is the business of the parts that wrote it.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import stat
import tarfile
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from index.errors import CollectionCorrupt, CollectionNotFound, InvalidName
from index.version import CollectionFolder
from server.store.database import Database, read_only
from server.store.home import hold_home
from server.store.records import BackupError
from server.store.runners import any_alive
from server.store.sqlite import find_damage
from text.files import replacing
from text.names import is_name

log = logging.getLogger(__name__)

DATABASE, COLLECTIONS, MODELS = "anaphora.db", "collections", "models"
_RUNS = ("rewriters", "rerankers", "readers", "synth", "adapt", "eval", "diagnose", "gold")
PARTS = (DATABASE, "anaphora.toml", "ask_history", COLLECTIONS, "uploads", "sources", *_RUNS)
"""What a backup holds of a home; `MODELS` is added where it is asked for."""

_MANIFEST, _MANIFEST_BYTES = "backup.json", 1 << 16
_DRAFT, _RESTORING = ".backup", ".restoring"
_RESERVE = 64 << 20
_ATTEMPTS = 5
_ABSENT = ".absent"
_UNSOUND = (tarfile.TarError, EOFError, zlib.error, ValueError, FileExistsError, IsADirectoryError, NotADirectoryError)
_PASSING = (".lock", ".part", ".partial", ".new", "lock", "writer.json")
"""Ends of the names of files that belong to a running process."""
_DRAFTS = (".partial", ".deleted-")
"""Beginnings of the names of folders that do."""


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

    `warn` hears of each collection whose newest version is damaged, and which is taken instead. Raises BackupError,
    HomeBusy (another backup is being made), StoreError or OSError.
    """
    if file.exists():
        raise BackupError(f"{file} exists; choose another name, or delete it first.")
    if not home.is_dir():
        raise BackupError(f"There is no home {home} to back up.")
    parts = (*PARTS, MODELS) if models else PARTS
    manifest = BackupManifest(version=version("anaphora"), created=time.time(), parts=parts)
    draft = home / _DRAFT
    with hold_home(home, claim="backup", doing="anaphora backup"), replacing(file) as target:
        target.chmod(0o600)
        try:
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(mode=0o700)
            (draft / _MANIFEST).write_text(manifest.model_dump_json(), "utf-8")
            for part in parts:
                _copy_part(home, draft, part, warn)
            with tarfile.open(target, "w:gz" if file.suffix in (".gz", ".tgz") else "w") as archive:
                for name in (_MANIFEST, *parts):
                    if (draft / name).exists():
                        archive.add(draft / name, name)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return manifest


def restore(home: Path, file: Path, *, without: Sequence[str] = ()) -> BackupManifest:
    """Make `home` what it was when `file` was written; parts that the backup does not cover stay as they are.

    The collections `without` are left out, and are gone then. Everything is unpacked and looked at beside the old
    files first; these are put back where the switch fails. Raises HomeBusy while a process uses the home, BackupError
    for a file that is no sound backup, CollectionNotFound for one of `without` that is not in it, StoreError, OSError.
    """
    work = home / _RESTORING
    with hold_home(home, doing="anaphora restore"):
        if any_alive(home / "run"):
            raise BackupError(f"A command such as `anaphora ask` is using {home}. End it, and restore again.")
        undo(home)
        try:
            (work / "new").mkdir(parents=True, mode=0o700)
            manifest = _unpack(file, work / "new")
            collections = work / "new" / COLLECTIONS
            held = sorted(folder.name for folder in collections.iterdir()) if collections.is_dir() else []
            for name in without:
                if name not in held:
                    raise CollectionNotFound(
                        f"There is no collection {name!r} in {file}, which holds {', '.join(held) or 'none'}; nothing "
                        "was changed."
                    )
                shutil.rmtree(collections / name)
            _check_database(work / "new" / DATABASE)
            _check_collections(work / "new" / COLLECTIONS)
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
    return (home / _RESTORING / "old").is_dir()


def undo(home: Path) -> None:
    """Put back what an unfinished restoring has moved away."""
    work = home / _RESTORING
    for part in sorted((work / "old").glob("*")):
        place = home / part.name.removesuffix(_ABSENT)
        _remove(place)
        if not part.name.endswith(_ABSENT):
            part.rename(place)
    with suppress(FileNotFoundError):
        shutil.rmtree(work)


def _switch(home: Path, work: Path, parts: Iterable[str]) -> None:
    """Move each part of the home away and the restored one into its place; `old` tells `undo` what was there."""
    names = [name for part in parts for name in ([part, f"{part}-wal", f"{part}-shm"] if part == DATABASE else [part])]
    os.sync()
    (work / "old").mkdir(mode=0o700)
    for name in names:
        if os.path.lexists(home / name):
            (home / name).rename(work / "old" / name)
        else:
            (work / "old" / f"{name}{_ABSENT}").touch()
        if (work / "new" / name).exists():
            (work / "new" / name).rename(home / name)


def _copy_part(home: Path, draft: Path, part: str, warn: Callable[[str], None]) -> None:
    source, target = home / part, draft / part
    if part == DATABASE and source.exists():
        _copy_database(source, target)
    elif part == COLLECTIONS:
        for name in sorted(folder.parent.name for folder in source.glob("*/versions")):
            if is_name(name):
                _copy_collection(CollectionFolder(source, name), CollectionFolder(target, name), warn)
    elif source.is_dir():
        _copy_tree(source, target, link=part in ("uploads", MODELS))
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
    """The version that serves and the small files beside it. A finished version never changes, but it may go."""
    problem = ""
    for _ in range(_ATTEMPTS):
        candidates, problem = folder.candidates(), ""
        if not candidates:
            return
        for name in candidates:
            try:
                _copy_tree(folder.versions / name, copy.versions / name, link=True, missing_ok=False)
                copy.version(name).check()
            except FileNotFoundError as error:
                problem = problem or f"the version {name} is incomplete, or is gone ({error})"
            except CollectionCorrupt as error:
                problem = problem or str(error)
            else:
                break
            shutil.rmtree(copy.path, ignore_errors=True)
        else:
            continue
        for file in sorted(folder.path.iterdir()):
            if file.is_file() and not file.is_symlink() and not _passing(file.name) and file.suffix != ".sqlite":
                shutil.copy2(file, copy.path)
        copy.switch(name)
        # While a version serves, nobody removes it.
        if folder.candidates()[:1] == candidates[:1]:
            if problem:
                warn(
                    f"The collection {folder.name} is backed up in an older version, {name}: {problem}. Index it again."
                )
            return
        shutil.rmtree(copy.path, ignore_errors=True)
    raise BackupError(
        f"The collection {folder.name} has no sound version ({problem}), or gets new ones all the time. Try again "
        "when nothing indexes it; if that does not help, index it again, or run "
        f"`anaphora collections delete {folder.name}`."
    )


def _copy_tree(source: Path, target: Path, *, link: bool, missing_ok: bool = True) -> None:
    """The folder with its modes; `link` for files that are replaced, never changed. Links and pipes are left out."""

    def gone(error: OSError) -> None:
        if not (missing_ok and isinstance(error, FileNotFoundError)):
            raise error

    for place, folders, names in os.walk(source, onerror=gone):
        folders[:] = [name for name in folders if not _passing(name) and not name.startswith("checkpoint-")]
        to = target / Path(place).relative_to(source)
        to.mkdir(parents=True, exist_ok=True)
        shutil.copymode(place, to)
        for name in names:
            file = Path(place, name)
            try:
                if stat.S_ISREG(file.lstat().st_mode) and not _passing(name):
                    _copy_file(file, to / name, link=link)
            except FileNotFoundError as error:
                gone(error)


def _copy_file(source: Path, target: Path, *, link: bool) -> None:
    if link:
        try:
            os.link(source, target)
            return
        except OSError as error:
            log.debug("%s is copied, not linked: %s", source, error)
    shutil.copy2(source, target)


def _passing(name: str) -> bool:
    return name.endswith(_PASSING) or name.startswith(_DRAFTS)


def _unpack(file: Path, target: Path) -> BackupManifest:
    """Unpack a backup; nothing in it can reach beyond `target` or become anything but files and folders."""
    modes: list[tuple[Path, int]] = []
    manifest: BackupManifest | None = None
    try:
        with tarfile.open(file) as archive:
            for member in archive:
                if manifest is None:
                    manifest = _read_manifest(archive, member)
                    continue
                path = PurePosixPath(member.name)
                if path.is_absolute() or ".." in path.parts or "\\" in member.name or path.parts[:1] == ():
                    raise BackupError(f"{file} is no backup to trust: it holds the path {member.name[:200]!r}.")
                if path.parts[0] not in manifest.parts or not (member.isreg() or member.isdir()):
                    raise BackupError(f"{file} is no backup to trust: {member.name[:200]!r} does not belong there.")
                place = target / path
                if member.isdir():
                    place.mkdir(parents=True, exist_ok=True)
                else:
                    if shutil.disk_usage(target).free < member.size + _RESERVE:
                        raise BackupError(f"The disk has no room for {file}; nothing was changed. Free some space.")
                    place.parent.mkdir(parents=True, exist_ok=True)
                    source = archive.extractfile(member)
                    assert source is not None
                    with source, place.open("xb") as to:
                        shutil.copyfileobj(source, to)
                modes.append((place, member.mode & 0o777 | (0o700 if member.isdir() else 0o600)))
    except _UNSOUND as error:
        raise BackupError(f"{file} is no sound backup of Anaphora ({error}); nothing was changed.") from error
    for place, mode in reversed(modes):
        place.chmod(mode)
    if manifest is None:
        raise BackupError(f"{file} is empty; nothing was changed.")
    return manifest


def _read_manifest(archive: tarfile.TarFile, member: tarfile.TarInfo) -> BackupManifest:
    source = archive.extractfile(member) if member.isreg() and member.name == _MANIFEST else None
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


def _check_database(path: Path) -> None:
    """Raises StoreError for a database that is damaged or of a newer version."""
    if not path.exists():
        return
    Database(path).close()
    path.with_name(f"{path.name}.lock").unlink(missing_ok=True)
    if problem := find_damage(path):
        raise BackupError(f"The database in the backup is damaged ({problem}); nothing was changed.")


def _check_collections(root: Path) -> None:
    """Raises BackupError for a collection whose files are not as they were written."""
    for name in sorted(folder.parent.name for folder in root.glob("*/versions")):
        try:
            folder = CollectionFolder(root, name)
            folder.version(folder.named() or "none").check()
        except (FileNotFoundError, CollectionCorrupt, InvalidName) as error:
            raise BackupError(
                f"The collection {name!r} in the backup is damaged ({error}); nothing was changed. Restore another "
                "backup, or this one with `--without` and that name."
            ) from error


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
