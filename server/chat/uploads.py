"""Files that people hand in: named safely, bounded, kept beside the collections.

An upload lies in `<home>/uploads/<collection>/uploads/<name>`, so that its document's id is
`uploads/<name>`: a person sees where it came from. Everything here blocks.
"""

from __future__ import annotations

import os
import re
import shutil
import unicodedata
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import BinaryIO, NamedTuple

from server.chat.errors import ChatError, InvalidRequest, TooLarge, Unavailable
from text.files import replacing

FOLDER = "uploads"
"""What every uploaded document's id begins with."""

_CHUNK = 1 << 20
_MIB = 1 << 20
_NAME_BYTES = 180
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")


def safe_name(name: str, suffixes: frozenset[str] | set[str]) -> str:
    """A file name without folders, controls and surprises, its suffix kept. Raises InvalidRequest."""
    last = PurePosixPath(PureWindowsPath(unicodedata.normalize("NFC", name)).name).name
    kept = "".join(
        char if unicodedata.category(char)[0] not in "CZ" and char not in '<>:"|?*\\/' else " " for char in last
    )
    cleaned = " ".join(kept.split()).strip(". ")
    stem, suffix = os.path.splitext(cleaned)
    if suffix.lower() not in suffixes or not stem.strip(". "):
        known = ", ".join(sorted(suffixes))
        raise InvalidRequest(
            f"A file of this kind cannot be indexed. Known are {known}.", code="unknown_file_type", param="file"
        )
    if _RESERVED.fullmatch(cleaned):
        stem = f"_{stem}"
    room = _NAME_BYTES - len(suffix.encode())
    return stem.encode()[:room].decode(errors="ignore").rstrip() + suffix.lower()


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

    def keep(self, collection: str, name: str, content: BinaryIO, room: Room | None = None) -> Path:
        """Store an upload in place of one of the same name; nothing is seen of it before it is whole.

        `room` is what whoever brings it has stored and may store. Raises TooLarge, InvalidRequest for an empty file, or
        Unavailable when it cannot be written.
        """
        folder = self._root / collection / FOLDER
        try:
            with replacing(folder / name) as draft, draft.open("wb") as target:
                if self._copy(content, target, room) == 0:
                    raise InvalidRequest(f"The file {name} is empty.", code="empty_file", param="file")
        except OSError as error:
            raise Unavailable(
                f"The file {name} could not be stored ({error.strerror or error}). Free some space on the server's "
                "disk and upload it again.",
                code="disk_full",
            ) from error
        return (folder / name).resolve()

    def _copy(self, content: BinaryIO, target: BinaryIO, room: Room | None) -> int:
        size = 0
        while chunk := content.read(_CHUNK):
            size += len(chunk)
            self._check(size, room)
            target.write(chunk)
        return size

    def _check(self, size: int, room: Room | None) -> None:
        if room is not None:
            room.demand(size, "file")
        if size > self._max_bytes:
            raise TooLarge(f"A file may have {self._max_bytes >> 20} MiB at most.", param="file")

    def remove_all(self, collection: str) -> None:
        """Delete every upload of a collection."""
        try:
            shutil.rmtree(self._root / collection)
        except FileNotFoundError:
            return
        except OSError as error:
            raise ChatError(f"The uploads of {collection} could not be deleted: {error}.") from error
