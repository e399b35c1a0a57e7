"""A folder of this machine, with all that lies below it; links that leave it are not followed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from plugins.sources.source import Connector, Item, Known, Pause, SourceError, is_wanted, size_problem
from text.files import path_text


class FolderConnector(Connector):
    """Lists the files of a folder; one has changed if its size or its time has."""

    def items(self, previous: Mapping[str, Known], pause: Pause) -> Iterator[Item]:
        """See `Connector`. A folder that cannot be listed ends the run: what is in it is not deleted."""
        root = Path(self.source.location)
        real_root = os.path.realpath(root)
        if Path(os.path.realpath(self.cache)).is_relative_to(real_root):
            raise SourceError(f"{root} holds Anaphora's own home, and would be copied into itself: name another")

        def unreadable(error: OSError) -> None:
            raise SourceError(f"{error.filename} cannot be listed ({error.strerror}): mount it, or give access to it")

        for place, folders, names in os.walk(root, onerror=unreadable):
            folders[:] = sorted(name for name in folders if is_wanted(name, 0))
            for name in sorted(names):
                path = Path(place, name)
                if os.path.commonpath((real_root, os.path.realpath(path))) != real_root:
                    continue
                pause(0)
                if item := self._item(path, path_text(path.relative_to(root).as_posix()), previous):
                    yield item

    def _item(self, path: Path, key: str, previous: Mapping[str, Known]) -> Item | None:
        try:
            status = path.stat()
            if not path.is_file() or not is_wanted(key, status.st_size):
                return None
            version, url = f"{status.st_mtime_ns} {status.st_size}", self.source.address(key)
            if problem := size_problem(status.st_size, self.max_bytes):
                return Item(key, problem=problem)
            unchanged = key in previous and previous[key].version == version
            return Item(key, version, None if unchanged else path.read_bytes(), url)
        except FileNotFoundError:
            return Item(key, gone=True)
        except OSError as error:
            return Item(key, problem=f"it cannot be read ({error.strerror})")
