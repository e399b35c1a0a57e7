"""A folder of this machine, with all that lies below it; links that leave it are not followed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from index.errors import SourceError
from index.sources.protocol import Item, Known, Pause, same, too_large, worth_keeping
from index.sources.source import Source
from index.sources.ssrf_guard import Guard


class FolderConnector:
    """Names the files of a folder; one is changed where its size or its time is."""

    lists_all = True

    def __init__(self, source: Source, cache: Path, guard: Guard, max_bytes: int) -> None:
        self._source = source
        self._root = Path(source.location)
        self._max_bytes = max_bytes
        self._cache = cache

    def items(self, known: Mapping[str, Known], pause: Pause) -> Iterator[Item]:
        """See `Connector`. A folder that cannot be listed ends it: what is in it is not deleted."""
        real_root = os.path.realpath(self._root)
        if Path(os.path.realpath(self._cache)).is_relative_to(real_root):
            raise SourceError(f"{self._root} holds Anaphora's own home, and would be copied into itself: name another")

        def unreadable(error: OSError) -> None:
            raise SourceError(f"{error.filename} cannot be listed ({error.strerror}): mount it, or give access to it")

        for place, folders, names in os.walk(self._root, onerror=unreadable):
            folders[:] = sorted(name for name in folders if worth_keeping(name, 0))
            for name in sorted(names):
                path = Path(place, name)
                if os.path.commonpath((real_root, os.path.realpath(path))) != real_root:
                    continue
                pause(0)
                if item := self._item(path, known):
                    yield item

    def _item(self, path: Path, known: Mapping[str, Known]) -> Item | None:
        key = path.relative_to(self._root).as_posix()
        try:
            status = path.stat()
            if not path.is_file() or not worth_keeping(key, status.st_size):
                return None
            version, url = f"{status.st_mtime_ns} {status.st_size}", self._source.address(key)
            if problem := too_large(status.st_size, self._max_bytes):
                return Item(key, problem=problem)
            content = None if same(known.get(key), version) else path.read_bytes()
        except FileNotFoundError:
            return Item(key, gone=True)
        except OSError as error:
            return Item(key, problem=f"it cannot be read ({error.strerror})")
        return Item(key, version, content, url)

    def close(self) -> None:
        """Nothing is open."""


connect = FolderConnector
