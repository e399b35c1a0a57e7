"""The part of the service that shows the pages of a document as pictures, and the images in it."""

from __future__ import annotations

import asyncio
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
from index.passages import boxes_of
from server.chat.authorization import ServiceBase, requires
from server.chat.error_mapping import MAX_ID_CHARS, Conflict, InvalidRequest, NotFound, Unavailable, clean, run_blocking
from server.turn.events import PageBox

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


def _image(path: Path, document_id: str, name: str) -> DocumentImage | None:
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


class PictureMixin(ServiceBase):
    """Pages of documents, drawn when somebody looks at them."""

    @requires("read")
    async def page_picture(self, collection: str, document_id: str, page: int, width: int) -> PagePicture:
        """A page of a PDF, so many pixels wide. Raises NotFound, InvalidRequest, Conflict or Unavailable.

        The document is looked up by its id among those of the collection: what is asked for never names a file.
        """
        key = clean(document_id, MAX_ID_CHARS, "document_id")
        if not LEAST_WIDTH <= width <= MOST_WIDTH:
            raise InvalidRequest(f"A picture is {LEAST_WIDTH} to {MOST_WIDTH} pixels wide.", param="width")
        opened = await self._opened(collection)
        file = await run_blocking(lambda: opened.source(key))
        path, digest = Path(file.path), file.fingerprint.split(" ")[0]
        if path.suffix.lower() != ".pdf":
            raise NotFound(f"{key[:200]!r} has no pages to show.", code="page_not_found", param="document_id")
        place = (digest, page, width)
        picture = self.core.pictures.get(place)
        if picture is None:
            picture = await asyncio.to_thread(self._drawn, path, digest, page, width)
            self.core.pictures.put(place, picture)
        return picture

    @requires("read")
    async def document_image(self, collection: str, document_id: str, name: str) -> DocumentImage:
        """An image that a document shows, by the name it has there. Raises NotFound.

        It must lie below the folder that was indexed; nothing that the document does not show can be had by its name.
        """
        opened, key = await self._opened(collection), clean(document_id, MAX_ID_CHARS, "document_id")
        document, file = await run_blocking(lambda: (opened.document(key), opened.source(key)))
        image = await asyncio.to_thread(_image, Path(file.path), key, name) if name in shown_in(document.text) else None
        if image is None:
            raise NotFound(f"{key[:200]!r} shows no image {name[:200]!r}.", code="image_not_found", param="name")
        return image

    @requires("read")
    async def places(self, collection: str, document_id: str, start: int, end: int) -> list[PageBox]:
        """Where characters of a document's text stand on its pages; nothing for one without places."""
        opened, key = await self._opened(collection), clean(document_id, MAX_ID_CHARS, "document_id")
        document = await run_blocking(lambda: opened.document(key))
        boxes = [box for section in document.sections for box in boxes_of(section.placed, start, end)]
        return [PageBox.model_validate(box) for box in boxes]

    def _drawn(self, path: Path, digest: str, page: int, width: int) -> PagePicture:
        index = self.core.settings.index
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
