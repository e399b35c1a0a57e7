"""The pages of a document as pictures, and the images in it."""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from index.errors import LoadError
from index.loaders.parser_worker import Limits
from index.loaders.reading import read_bytes
from index.loaders.sandbox import PageMissing, PagePicture, shared_pool
from server.chat.error_mapping import Conflict, NotFound, Unavailable
from server.settings import IndexSettings

LEAST_WIDTH, MOST_WIDTH = 100, 2000
"""Pixels."""

_CACHED_BYTES = 32 << 20
_LARGEST_IMAGE = 8 << 20
_SHOWN = re.compile(r"!\[[^\]\n]*\]\(\s*<?([^)\s>]+)|<img\s[^>]*?\bsrc\s*=\s*[\"']([^\"'>]+)", re.IGNORECASE)
_KINDS = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


@dataclass(frozen=True, slots=True)
class DocumentImage:
    """An image of a document: its bytes, and what they are by their beginning."""

    data: bytes
    media_type: str


def shown_in(text: str) -> set[str]:
    """The names of the images that a text shows."""
    return {match[1] or match[2] for match in _SHOWN.finditer(text)}


def read_image(path: Path, document_id: str, name: str) -> DocumentImage | None:
    """The image that lies where the name says from `path`, below the folder that `document_id` is below."""
    root = (
        path.parents[document_id.count("/")] if path.as_posix().endswith(f"/{document_id}") else path.parent
    ).resolve()
    try:
        wanted = (path.parent / unquote(name.split("#")[0].split("?")[0])).resolve()
        hidden = wanted.is_relative_to(root) and any(part.startswith(".") for part in wanted.relative_to(root).parts)
        if not wanted.is_relative_to(root) or hidden:
            return None
        data = read_bytes(wanted, _LARGEST_IMAGE)
    except (OSError, ValueError, LoadError):
        return None
    kind = next((kind for magic, kind in _KINDS if data.startswith(magic)), "")
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "image/webp"
    return DocumentImage(data, kind) if kind else None


class PictureCache:
    """The pictures that were drawn last, up to so many bytes."""

    def __init__(self, most_bytes: int = _CACHED_BYTES) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[tuple[str, int, int], PagePicture] = OrderedDict()

    def get(self, key: tuple[str, int, int]) -> PagePicture | None:
        """The picture of a file's content, page and width, if it is kept."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def put(self, key: tuple[str, int, int], picture: PagePicture) -> None:
        """Keep a picture, and let go of the oldest ones."""
        if (before := self._kept.pop(key, None)) is not None:
            self._bytes -= len(before.png)
        self._kept[key] = picture
        self._bytes += len(picture.png)
        while self._bytes > self._most:
            _, gone = self._kept.popitem(last=False)
            self._bytes -= len(gone.png)


def draw(path: Path, digest: str, page: int, width: int, index: IndexSettings) -> PagePicture:
    """Return a page of a PDF as a picture, `width` pixels wide. Raises NotFound, Conflict, Unavailable."""
    try:
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                raise Conflict(
                    "The file has changed since it was indexed. Index the collection again.", code="file_changed"
                )
        limits = Limits(index.parse_seconds, index.parse_memory_mb, **index.pdf.model_dump())
        return shared_pool(limits).draw(path, page, width, index.max_file_mb)
    except OSError as error:
        raise NotFound("The document's file is not there any more.", code="page_not_found") from error
    except PageMissing as error:
        raise NotFound(str(error), code="page_not_found", param="page") from error
    except LoadError as error:
        raise Unavailable(str(error), code="page_not_drawn") from error
