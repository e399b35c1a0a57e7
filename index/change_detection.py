"""Files that their parser was killed over: they are not parsed again until they change or somebody asks.

Kept beside the versions of a collection, and written at once: a restart does not try them again.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import which

from index.errors import LoadError, ParserKilled
from index.loaders import SourceFile
from index.loaders.addresses import Addresses
from index.loaders.files import LAYOUT
from index.loaders.sandbox import Parsed, ParserPool
from index.records import FileRecord
from index.writer import Workers
from text.files import path_text, resolved, write_json

FILE = "quarantine.json"


class Quarantine:
    """The quarantined files of the collection in `folder`, each with what it was like and why it was given up."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._files = self._read()

    def reason(self, path: Path, fingerprint: str) -> str:
        """Why the file is left alone; empty where it is not, or has changed."""
        entry = self._files.get(str(path), {})
        return entry.get("reason", "") if entry.get("fingerprint") == fingerprint else ""

    def add(self, path: Path, fingerprint: str, reason: str) -> None:
        """Leave a file alone from now on. Raises OSError."""
        self._files[str(path)] = {"fingerprint": fingerprint, "reason": reason}
        self._write()

    def release(self, path: Path) -> None:
        """Forget a file, if it is known. Raises OSError."""
        if self._files.pop(str(path), None) is not None:
            self._write()

    def _read(self) -> dict[str, dict[str, str]]:
        try:
            files = json.loads(self._path.read_text("utf-8"))["files"]
        except (OSError, ValueError, KeyError, TypeError):
            return {}  # the worst that follows is that a file is tried once more
        sound = isinstance(files, dict) and all(isinstance(entry, dict) for entry in files.values())
        return files if sound else {}

    def _write(self) -> None:
        write_json(self._path, {"files": self._files})


# A larger file is not read to see whether it changed: its loader will refuse it.
_HASHED = 32
_MEBIBYTE = 1024 * 1024
_MOST_AT_ONCE = 4
NOT_UTF8 = "its name, or that of a folder it is in, is not UTF-8: rename it (`convmv` renames whole folders)"
LEFT_ALONE = "; it is left alone until it changes or you ask for it again"


@dataclass(frozen=True, slots=True)
class FileReading:
    """Result of reading a file.

    `fingerprint` is of its bytes and of all that decides how they become passages, empty where it cannot be read;
    `document_id` is the id it was parsed under. Without `parsed` and `problem` the file is as it was. `killed` tells
    that the problem is one to quarantine the file for.
    """

    fingerprint: str
    document_id: str
    parsed: Parsed | None = None
    problem: str = ""
    killed: bool = False

    @property
    def unchanged(self) -> bool:
        """Whether nothing is to be done about the file."""
        return self.parsed is None and not self.problem


class FileReader:
    """Reads files for one run. `known` is what was indexed before, by path; `salt` names how passages are made.

    Quarantined files are read too where `retry` holds them or a folder they are in. `sites` are for `Addresses`.
    `at_once` files are parsed at the same time; by default as many as there are processors, and at most four.
    """

    def __init__(
        self,
        pool: ParserPool,
        quarantine: Quarantine,
        records: Mapping[str, FileRecord],
        salt: str,
        max_file_mb: float,
        retry: Set[Path],
        cancelled: Callable[[], bool],
        sites: Mapping[Path, str],
        at_once: int = 0,
    ) -> None:
        self._pool = pool
        self._quarantine = quarantine
        self._known = records
        self._salt = salt
        self._max_file_mb = max_file_mb
        self._retry = retry
        self.addresses = Addresses(sites)
        self._cancelled = cancelled
        self._at_once = at_once or min(os.cpu_count() or 1, _MOST_AT_ONCE)

    def __getstate__(self) -> dict[str, object]:
        """A reader for another process is not cancelled but killed."""
        return {**self.__dict__, "_cancelled": _never}

    def ahead(
        self, sources: Sequence[SourceFile], workers: Workers | None = None
    ) -> Iterator[tuple[SourceFile, FileReading]]:
        """Every file with its reading, in order, read by `workers` or here; a few are read before they are asked for.

        Raises IndexingCancelled.
        """
        if workers:
            yield from zip(sources, workers.map(self.read, sources), strict=True)
            return
        waiting: deque[tuple[SourceFile, Future[FileReading]]] = deque()
        with ThreadPoolExecutor(self._at_once, thread_name_prefix="read") as threads:
            try:
                for source in sources:
                    waiting.append((source, threads.submit(self.read, source)))
                    if len(waiting) > 2 * self._at_once:
                        first, reading = waiting.popleft()
                        yield first, reading.result()
                for first, reading in waiting:
                    yield first, reading.result()
            finally:
                threads.shutdown(cancel_futures=True)

    def read(self, source: SourceFile, document_id: str = "") -> FileReading:
        """Read one file, as `document_id` if that is given. Raises IndexingCancelled."""
        looked, changed = self._look(source, document_id)
        if not changed:
            return looked
        try:
            parsed = self._pool.parse(source.path, looked.document_id, self._max_file_mb, self._cancelled)
        except LoadError as error:
            return replace(looked, problem=str(error), killed=isinstance(error, ParserKilled))
        return replace(looked, parsed=parsed)

    def _look(self, source: SourceFile, document_id: str) -> tuple[FileReading, bool]:
        """Return the metadata of a file before parsing, and whether it has to be parsed."""
        path = resolved(source.path)
        if path_text(path) != str(path):
            return FileReading("", document_id or source.document_id, problem=NOT_UTF8), False
        record = self._known.get(str(path))
        document_id = document_id or (record.document_id if record else source.document_id)
        fingerprint = self._fingerprint(path)
        if fingerprint and (about := self.addresses.of(source)):
            fingerprint += f" {about.get('url', '')} {about.get('title', '')}"
        if record and fingerprint and fingerprint == record.fingerprint:
            return FileReading(fingerprint, document_id), False
        if (reason := self._quarantine.reason(path, fingerprint)) and self._retry.isdisjoint((path, *path.parents)):
            return FileReading(fingerprint, document_id, problem=reason + LEFT_ALONE), False
        return FileReading(fingerprint, document_id), True

    def _fingerprint(self, path: Path) -> str:
        try:
            status = path.stat()
            # Looked at before it is opened: opening a pipe waits for its other end, and its loader will refuse it.
            if not stat.S_ISREG(status.st_mode) or status.st_size > self._max_file_mb * _HASHED * _MEBIBYTE:
                return ""
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return ""
        # How a PDF is read is of its own: another way of it concerns no other file.
        limits = self._pool.limits
        read = f" {LAYOUT}" if path.suffix.lower() == ".pdf" else ""
        if read and which("tesseract"):
            read += f" {limits.ocr_languages}"
        return f"{digest} {self._salt}{read}"


def _never() -> bool:
    return False
