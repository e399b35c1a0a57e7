"""Open collections: opened on first use, kept open, moved to a newer version when one appears.

Everything here blocks and may be called from any thread.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from index.errors import CollectionCorrupt, CollectionNotFound, IndexingError
from server.chat.loaded_models import Models
from server.chat.types import CollectionSummary
from server.settings import Settings

if TYPE_CHECKING:
    from index.collection import Collection

log = logging.getLogger(__name__)

REFRESH_SECONDS = 1.0
"""How often, at most, a collection is asked whether another process has written a newer version."""
CHECK_SECONDS = 3600.0
"""How often the files of a collection that is in use are read and compared with their checksums."""
CHECK_BYTES = 32 << 20
"""How much of them is read a second, so that turns have the disk and the cache of files for themselves."""
TRY_AGAIN_SECONDS = 10.0
"""How long a collection without a sound version is not read again, since that reads all of it."""


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
        self._comparing: dict[str, threading.Thread] = {}
        self._failed: dict[str, tuple[IndexingError, float]] = {}
        self.root = settings.home / "collections"

    def get(self, name: str) -> Collection:
        """The newest version of a collection, open. Raises CollectionNotFound or another IndexingError."""
        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            collection = self._open.get(name)
            if collection is None:
                collection = self._open[name] = self._opened(name)
            elif time.monotonic() - self._checked[name] > REFRESH_SECONDS:
                collection.refresh()
            now = self._checked[name] = time.monotonic()
            before = self._comparing.get(name)
            if now - self._compared.setdefault(name, now) > CHECK_SECONDS and not (before and before.is_alive()):
                self._compared[name] = now
                thread = threading.Thread(target=_compare, args=(collection,), name=f"check-{name}", daemon=True)
                self._comparing[name] = thread
                thread.start()
            return collection

    def _opened(self, name: str) -> Collection:
        from index.collection import Collection

        error, until = self._failed.get(name, (None, 0.0))
        if isinstance(error, CollectionCorrupt) and time.monotonic() < until:
            raise CollectionCorrupt(str(error))
        try:
            collection = Collection.open(self.root, name, self._models.encoder(), store=self._settings.index.vectors)
        except CollectionNotFound:
            self._failed.pop(name, None)
            raise
        except IndexingError as error:
            self._failed[name] = error, time.monotonic() + TRY_AGAIN_SECONDS
            raise
        self._failed.pop(name, None)
        return collection

    def changed(self, name: str) -> None:
        """Look for a newer version at the next use, however soon that is."""
        self._checked[name] = float("-inf")
        self._failed.pop(name, None)

    def is_open(self, name: str) -> bool:
        """Whether a collection is open already; never blocks."""
        return name in self._open

    def problem(self, name: str) -> str:
        """Why an older version of a collection serves, or it could not be opened; empty otherwise. Never blocks."""
        collection = self._open.get(name)
        if collection is not None:
            return collection.problem
        return str(self._failed[name][0]) if name in self._failed else ""

    def outdated(self, name: str) -> str:
        """List the settings that ask for indexing a collection again; it answers as before until then."""
        wanted = self._settings.index.language
        if name not in self._open or (language := self._open[name].language) == wanted:
            return ""
        return (
            f"The words of collection {name!r} were stemmed by `index.language` {language!r}, and the settings say "
            f"{wanted!r}: index it again."
        )

    def exists(self, name: str) -> bool:
        """Whether there is a collection of that name, without opening it."""
        return any(info.name == name for info in self.listing())

    def listing(self) -> list[CollectionSummary]:
        """Every collection, by name."""
        from index.collection import list_collections

        return [
            CollectionSummary(
                **asdict(replace(info, problem=self.problem(info.name) or info.problem)),
                answers=self._answers(info.name, bool(info.version)),
            )
            for info in sorted(list_collections(self.root), key=lambda info: info.name)
        ]

    def _answers(self, name: str, readable: bool) -> bool:
        collection = self._open.get(name)
        return collection.sound if collection is not None else readable and name not in self._failed

    def delete(self, name: str) -> None:
        """Close a collection and remove whatever lies there of it. Raises CollectionNotFound where that is nothing."""
        from index.collection import delete_collection

        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            collection = self._open.pop(name, None)
            self._checked.pop(name, None)
            self._compared.pop(name, None)
            self._failed.pop(name, None)
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
    from index.version import Pace

    try:
        collection.check(Pace(CHECK_BYTES))
    except IndexingError as error:
        log.warning("%s", error)
