"""Open collections: opened on first use, kept open, moved to a newer version when one appears.

Everything here blocks and may be called from any thread.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from index.errors import IndexingError
from server.chat.errors import InvalidRequest
from server.chat.models import Models
from server.chat.types import CollectionSummary
from server.settings import Settings
from text.names import NAME_RULE, is_name

if TYPE_CHECKING:
    from index.collection import Collection

log = logging.getLogger(__name__)

REFRESH_SECONDS = 1.0
"""How often, at most, a collection is asked whether another process has written a newer version."""
CHECK_SECONDS = 3600.0
"""How often the files of a collection that is in use are read and compared with their checksums."""


def checked_name(name: str) -> str:
    """`name` if a collection may be called so. Raises InvalidRequest."""
    if not is_name(name):
        raise InvalidRequest(
            f"This cannot be a collection's name: use {NAME_RULE}.",
            code="invalid_collection_name",
            param="collection",
        )
    return name


class Collections:
    """The collections of one home folder."""

    def __init__(self, settings: Settings, models: Models) -> None:
        self._settings = settings
        self._models = models
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._open: dict[str, Collection] = {}
        self._checked: dict[str, float] = {}
        self._compared: dict[str, float] = {}
        self.root = settings.home / "collections"

    def get(self, name: str) -> Collection:
        """The newest version of a collection, open. Raises CollectionNotFound or another IndexingError."""
        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            collection = self._open.get(name)
            if collection is None:
                from index.collection import Collection

                store = self._settings.index.vectors
                collection = Collection.open(self.root, name, self._models.encoder(), store=store)
                self._open[name] = collection
            elif time.monotonic() - self._checked[name] > REFRESH_SECONDS:
                collection.refresh()
            now = self._checked[name] = time.monotonic()
            if now - self._compared.setdefault(name, now) > CHECK_SECONDS:
                self._compared[name] = now
                threading.Thread(target=_compare, args=(collection,), name=f"check-{name}", daemon=True).start()
            return collection

    def changed(self, name: str) -> None:
        """Look for a newer version at the next use, however soon that is."""
        self._checked[name] = float("-inf")

    def is_open(self, name: str) -> bool:
        """Whether a collection is open already; never blocks."""
        return name in self._open

    def problem(self, name: str) -> str:
        """Why an older version of an open collection serves; empty where none does. Never blocks."""
        collection = self._open.get(name)
        return collection.problem if collection is not None else ""

    def exists(self, name: str) -> bool:
        """Whether there is a collection of that name, without opening it."""
        return any(info.name == name for info in self.listing())

    def listing(self) -> list[CollectionSummary]:
        """Every collection, by name."""
        from index.collection import list_collections

        return [
            CollectionSummary(
                name=info.name,
                documents=info.documents,
                passages=info.passages,
                version=info.version,
                updated=info.updated,
                problem=info.problem,
            )
            for info in sorted(list_collections(self.root), key=lambda info: info.name)
        ]

    def delete(self, name: str) -> None:
        """Close a collection and remove whatever lies there of it. Raises CollectionNotFound where that is nothing."""
        from index.collection import delete_collection

        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            collection = self._open.pop(name, None)
            self._checked.pop(name, None)
            self._compared.pop(name, None)
            if collection is not None:
                collection.close()
            delete_collection(self.root, name)

    def close(self) -> None:
        """Close every collection."""
        with self._lock:
            for collection in self._open.values():
                collection.close()
            self._open.clear()


def _compare(collection: Collection) -> None:
    try:
        collection.check()
    except IndexingError as error:
        log.warning("%s", error)
