"""Files that people hand in: their names, how much may be stored, and archives with many of them.

    <home>/uploads/<collection>/uploads/<file>           a file
                                        <archive>/<path> what came in a zip archive

The collection's folder is what is indexed, so that every id begins with `uploads/`. A name or an archive is a
stranger's: no path leads out of the folder, and nothing is unpacked beyond what may be stored.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import time
import unicodedata
import uuid
import zipfile
import zlib
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import BinaryIO, NamedTuple

from server.chat.base import ChatError, InvalidRequest, TooLarge, Unavailable
from text.files import replacing, sync

FOLDER = "uploads"
"""What every uploaded document's id begins with."""
ARCHIVE = ".zip"
MOST_FILES = 5_000
"""Documents and pictures that an archive may hold."""
MOST_UNPACKED = 8
"""An archive may unpack to so many times what a single file may have."""
PICTURES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
"""What documents show, and is kept beside them."""

_CHUNK = 1 << 20
_MIB = 1 << 20
_NAME_BYTES = 180
_PATH_PARTS = 20
_OLD = ".old"
_DAY = 86_400.0
_DIRECTORY_BYTES = 4 << 20
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")
_LEFT_OUT = frozenset({"__MACOSX", "node_modules", "__pycache__"})


def _plain(name: str) -> str:
    """A name without folders, controls and surprises; empty where nothing is left of it."""
    last = PurePosixPath(PureWindowsPath(unicodedata.normalize("NFC", name)).name).name
    kept_characters = "".join(
        char if unicodedata.category(char)[0] not in "CZ" and char not in '<>:"|?*\\/' else " " for char in last
    )
    cleaned = " ".join(kept_characters.split()).strip(". ")
    return f"_{cleaned}" if _RESERVED.fullmatch(cleaned) else cleaned


def safe_name(name: str, suffixes: Set[str]) -> str:
    """A file name without folders, controls and surprises, its suffix kept. Raises InvalidRequest."""
    stem, suffix = os.path.splitext(_plain(name))
    if suffix.lower() not in suffixes or not stem.strip(". _"):
        listed = ", ".join(sorted(suffixes))
        raise InvalidRequest(
            f"A file of this kind cannot be indexed. Known are {listed}.", code="unknown_file_type", param="file"
        )
    room = _NAME_BYTES - len(suffix.encode())
    return stem.encode()[:room].decode(errors="ignore").rstrip() + suffix.lower()


def upload_name(document_id: str) -> str:
    """The name of an upload's row, of its document's id. A pushed document's has a slash, an upload's has none."""
    return document_id.removeprefix(f"{FOLDER}/").replace("/", ":")


def upload_id(name: str) -> str:
    """The id of the document of an upload's row."""
    return f"{FOLDER}/{name.replace(':', '/')}"


class Room(NamedTuple):
    """Bytes that somebody has stored, and may store."""

    used: int
    allowed: int

    def demand(self, size: int, param: str) -> None:
        """Raise TooLarge where so many bytes more are not allowed."""
        if size > self.allowed - self.used:
            raise TooLarge(
                f"Your files have {self.used / _MIB:.1f} MiB, and with this one more than the {self.allowed >> 20} MiB "
                "that are allowed (limits.stored_mb). Remove some that are not needed.",
                code="storage_limit",
                param=param,
            )


class Stored(NamedTuple):
    """A stored file or folder, and the bytes of each upload by its row's name."""

    path: Path
    sizes: dict[str, int]


class Uploads:
    """The uploads of one home folder."""

    def __init__(self, home: Path, max_bytes: int) -> None:
        self._root = home / "uploads"
        self._max_bytes = max_bytes

    def root(self, collection: str) -> Path:
        """The folder to index for a collection's uploads; it may not exist."""
        return self._root / collection

    def holds(self, collection: str, path: Path) -> bool:
        """Whether a file is an upload of this collection."""
        return path.resolve().is_relative_to((self._root / collection).resolve())

    def keep(self, collection: str, name: str, content: BinaryIO, room: Room | None = None) -> Stored:
        """Store an upload in place of one of the same name; nothing is seen of it before it is whole.

        `room` is what whoever brings it has stored and may store. Raises TooLarge, InvalidRequest for an empty file, or
        Unavailable when it cannot be written.
        """
        folder = self._root / collection / FOLDER
        with _stored(name), replacing(folder / name) as draft, draft.open("wb") as target:
            size = self._copy(content, target, room)
            if not size:
                raise InvalidRequest(f"The file {name} is empty.", code="empty_file", param="file")
        return Stored((folder / name).resolve(), {name: size})

    def unpack(
        self, collection: str, name: str, content: BinaryIO, room: Room | None = None, *, suffixes: Set[str]
    ) -> Stored:
        """Store the documents, by their `suffixes`, and the pictures of a zip archive in a folder of its name.

        It takes the place of an earlier one, as a whole. Hidden files are left out. Raises TooLarge, Unavailable, or
        InvalidRequest for what is no such archive, is encrypted or damaged, or holds no document.
        """
        parent = self._root / collection / FOLDER
        folder, draft = parent / name, parent / f".{uuid.uuid4().hex}.part"
        sizes = dict[str, int]()
        with _stored(f"{name}{ARCHIVE}"), _archive(content, name) as archive:
            try:
                for member, path in _wanted(archive, name, suffixes):
                    target = draft / path
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with archive.open(member) as source, target.open("wb") as file:
                        size = self._copy(source, file, room, sum(sizes.values()))  # type: ignore[arg-type]  # reads
                    if size:
                        sizes[f"{name}:{path.replace('/', ':')}"] = size
                    else:
                        target.unlink()
                if not any(os.path.splitext(path)[1].lower() in suffixes for path in sizes):
                    listed = ", ".join(sorted(suffixes))
                    raise InvalidRequest(
                        f"There is no document in {name}{ARCHIVE}. Known are {listed}.", code="empty_file", param="file"
                    )
                old = parent / f".{name}{_OLD}"
                if folder.exists():
                    shutil.rmtree(old, ignore_errors=True)
                    folder.replace(old)
                draft.replace(folder)
                sync(parent)
                shutil.rmtree(old, ignore_errors=True)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
        return Stored(folder.resolve(), sizes)

    def recover(self) -> None:
        """Put back what a killed server had set aside for a newer archive, and delete day-old drafts of killed ones."""
        for old in self._root.glob(f"*/{FOLDER}/.*{_OLD}"):
            folder = old.with_name(old.name[1:].removesuffix(_OLD))
            if folder.exists():
                shutil.rmtree(old, ignore_errors=True)
            else:
                old.replace(folder)
        for draft in self._root.glob(f"*/{FOLDER}/.*.part"):
            with suppress(FileNotFoundError):
                if time.time() - draft.lstat().st_mtime < _DAY:
                    continue
            if draft.is_dir():
                shutil.rmtree(draft, ignore_errors=True)
            else:
                draft.unlink(missing_ok=True)

    def _copy(self, content: BinaryIO, target: BinaryIO, room: Room | None, before: int = 0) -> int:
        """Copy a file; `before` are the bytes of others that came with it. Raises TooLarge."""
        size = 0
        while chunk := content.read(_CHUNK):
            size += len(chunk)
            if room is not None:
                room.demand(before + size, "file")
            if size > self._max_bytes:
                raise TooLarge(f"A file may have {self._max_bytes >> 20} MiB at most.", param="file")
            if before + size > MOST_UNPACKED * self._max_bytes:
                most = MOST_UNPACKED * self._max_bytes >> 20
                raise TooLarge(f"An archive may unpack to {most} MiB at most: split it.", param="file")
            target.write(chunk)
        return size

    def remove_all(self, collection: str) -> None:
        """Delete every upload of a collection."""
        try:
            shutil.rmtree(self._root / collection)
        except FileNotFoundError:
            return
        except OSError as error:
            raise ChatError(f"The uploads of {collection} could not be deleted: {error}.") from error


@contextmanager
def _stored(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable(
            f"The file {name} could not be stored ({error.strerror or error}). Free some space on the server's "
            "disk and upload it again.",
            code="disk_full",
        ) from error


@contextmanager
def _archive(content: BinaryIO, name: str) -> Iterator[zipfile.ZipFile]:
    """The archive, open for reading. Raises InvalidRequest for what is none, or breaks while it is read."""
    try:
        _check_directory(content)
        with zipfile.ZipFile(content) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise InvalidRequest(
            f"{name}{ARCHIVE} cannot be unpacked ({error}). Pack it anew, as a zip archive without a password.",
            code="bad_archive",
            param="file",
        ) from error


def _check_directory(content: BinaryIO) -> None:
    """Raise BadZipFile for a list of files that would fill the memory: it is read as a whole."""
    content.seek(0, os.SEEK_END)
    content.seek(max(0, content.tell() - (1 << 16) - 64))
    tail = content.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) < at + 22:
        raise zipfile.BadZipFile("it is no zip archive")
    (size,) = struct.unpack("<L", tail[at + 12 : at + 16])
    if size > _DIRECTORY_BYTES or b"PK\x06\x07" in tail[max(0, at - 20) : at]:
        raise zipfile.BadZipFile("it holds too many files")
    content.seek(0)


def _wanted(archive: zipfile.ZipFile, name: str, endings: Set[str]) -> list[tuple[zipfile.ZipInfo, str]]:
    """The members to keep, each with its path below the archive's folder. Raises TooLarge for too many."""
    wanted = dict[str, zipfile.ZipInfo]()
    for member in archive.infolist():
        parts = [part for part in re.split(r"[\\/]+", member.filename) if part not in ("", ".")]
        if member.is_dir() or not parts or any(part.startswith(".") or part in _LEFT_OUT for part in parts):
            continue
        *folders, file = parts
        stem, suffix = os.path.splitext(_plain(file))
        if suffix.lower() not in endings | PICTURES or not stem.strip(". _") or len(parts) > _PATH_PARTS:
            continue
        safe = [_plain(folder).encode()[:_NAME_BYTES].decode(errors="ignore").strip(". ") for folder in folders]
        wanted["/".join([*filter(None, safe), safe_name(file, endings | PICTURES)])] = member
    if len(wanted) > MOST_FILES:
        raise TooLarge(
            f"{name}{ARCHIVE} holds {len(wanted):,} documents and pictures, and {MOST_FILES:,} are allowed: split it.",
            param="file",
        )
    # `docs.zip` with everything in `docs/`.
    tops = {path.split("/")[0] for path in wanted}
    inner = f"{name}/" if tops == {name} else ""
    return [(member, path.removeprefix(inner)) for path, member in wanted.items()]
