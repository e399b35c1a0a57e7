"""A folder of this machine, with all that lies below it; links that leave it are not followed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from plugins.sources.source import Guard, Item, Known, Pause, Source, SourceError, is_wanted, size_problem
from text.files import path_text


class FolderConnector:
    """Lists the files of a folder; one has changed if its size or its time has."""

    lists_all = True

    def __init__(self, source: Source, cache: Path, guard: Guard, max_bytes: int) -> None:
        self._source = source
        self._root = Path(source.location)
        self._max_bytes = max_bytes
        self._cache = cache

    def items(self, previous: Mapping[str, Known], pause: Pause) -> Iterator[Item]:
        """See `Connector`. A folder that cannot be listed ends the run: what is in it is not deleted."""
        real_root = os.path.realpath(self._root)
        if Path(os.path.realpath(self._cache)).is_relative_to(real_root):
            raise SourceError(f"{self._root} holds Anaphora's own home, and would be copied into itself: name another")

        def unreadable(error: OSError) -> None:
            raise SourceError(f"{error.filename} cannot be listed ({error.strerror}): mount it, or give access to it")

        for place, folders, names in os.walk(self._root, onerror=unreadable):
            folders[:] = sorted(name for name in folders if is_wanted(name, 0))
            for name in sorted(names):
                path = Path(place, name)
                if os.path.commonpath((real_root, os.path.realpath(path))) != real_root:
                    continue
                pause(0)
                if item := self._item(path, previous):
                    yield item

    def _item(self, path: Path, previous: Mapping[str, Known]) -> Item | None:
        key = path_text(path.relative_to(self._root).as_posix())
        try:
            status = path.stat()
            if not path.is_file() or not is_wanted(key, status.st_size):
                return None
            version, url = f"{status.st_mtime_ns} {status.st_size}", self._source.address(key)
            if problem := size_problem(status.st_size, self._max_bytes):
                return Item(key, problem=problem)
            unchanged = key in previous and previous[key].version == version
            return Item(key, version, None if unchanged else path.read_bytes(), url)
        except FileNotFoundError:
            return Item(key, gone=True)
        except OSError as error:
            return Item(key, problem=f"it cannot be read ({error.strerror})")

    def close(self) -> None:
        """Nothing is open."""
