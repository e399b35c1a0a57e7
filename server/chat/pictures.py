"""The part of the service that shows the pages of a document as pictures."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import OrderedDict
from pathlib import Path

from index.errors import LoadError
from index.loaders.pictures import PageMissing, PagePicture
from index.loaders.sandbox import Limits, shared_pool
from index.passages import boxes_of
from server.chat.acting import Acting, acting
from server.chat.collections import checked_name
from server.chat.conversations import clean
from server.chat.documents import MAX_ID_CHARS
from server.chat.errors import Conflict, InvalidRequest, NotFound, Unavailable
from server.chat.translated import in_thread
from server.turn.events import PageBox

LEAST_WIDTH, MOST_WIDTH = 100, 2000
"""Pixels."""

_CACHED_BYTES = 32 << 20


class PictureCache:
    """The pictures that were drawn last, up to so many bytes; safe to share by threads."""

    def __init__(self, most_bytes: int = _CACHED_BYTES) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[tuple[str, int, int], PagePicture] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, int, int]) -> PagePicture | None:
        """The picture of a file's content, page and width, if it is kept."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: tuple[str, int, int], picture: PagePicture) -> None:
        """Keep a picture, and let go of the oldest ones."""
        with self._lock:
            if (before := self._kept.pop(key, None)) is not None:
                self._bytes -= len(before.png)
            self._kept[key] = picture
            self._bytes += len(picture.png)
            while self._bytes > self._most:
                _, gone = self._kept.popitem(last=False)
                self._bytes -= len(gone.png)


class PictureMixin(Acting):
    """Pages of documents, drawn when somebody looks at them."""

    @acting("read")
    async def page_picture(self, collection: str, document_id: str, page: int, width: int) -> PagePicture:
        """A page of a PDF, so many pixels wide. Raises NotFound, InvalidRequest, Conflict or Unavailable.

        The document is looked up by its id among those of the collection: what is asked for never names a file.
        """
        name, key = checked_name(collection), clean(document_id, MAX_ID_CHARS, "document_id")
        if not LEAST_WIDTH <= width <= MOST_WIDTH:
            raise InvalidRequest(f"A picture is {LEAST_WIDTH} to {MOST_WIDTH} pixels wide.", param="width")
        await self.existing(name)
        file = await in_thread(lambda: self.core.opened.get(name).source(key))
        path, digest = Path(file.path), file.fingerprint.split(" ")[0]
        if path.suffix.lower() != ".pdf":
            raise NotFound(f"{key[:200]!r} has no pages to show.", code="page_not_found", param="document_id")
        asked = (digest, page, width)
        picture = self.core.pictures.get(asked)
        if picture is None:
            picture = await asyncio.to_thread(self._drawn, path, digest, page, width)
            self.core.pictures.put(asked, picture)
        return picture

    @acting("read")
    async def places(self, collection: str, document_id: str, start: int, end: int) -> list[PageBox]:
        """Where characters of a document's text stand on its pages; nothing for one without places."""
        name, key = checked_name(collection), clean(document_id, MAX_ID_CHARS, "document_id")
        await self.existing(name)
        document = await in_thread(lambda: self.core.opened.get(name).document(key))
        boxes = [box for section in document.sections for box in boxes_of(section.placed, start, end)]
        return [PageBox(**box._asdict()) for box in boxes]

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
