"""The files of an indexing run, read ahead of whoever takes them: which have changed, and what is in those.

Parsing is done by other processes (`index.loaders.sandbox`), several at once; the order stays. What becomes of a
file is decided by `index.indexer`.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from index.errors import LoadError
from index.loaders import SourceFile
from index.loaders.sandbox import Parsed, ParserKilled, ParserPool
from index.quarantine import Quarantine
from index.records import FileRecord

# A larger file is not read to see whether it changed: its loader will refuse it.
_HASHED = 32
_MEBIBYTE = 1024 * 1024
_MOST_AT_ONCE = 4
LEFT_ALONE = "; it is left alone until it changes or you ask for it again"


@dataclass(frozen=True, slots=True)
class FileReading:
    """What reading a file came to.

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


def resolved(path: Path) -> Path:
    """The file that a path leads to, or as far as it leads: links that lead back to themselves are no error here."""
    return Path(os.path.realpath(path))


class FileReader:
    """Reads files for one run. `known` is what was indexed before, by path; `salt` names how passages are made.

    Quarantined files are read too where `retry` holds them or a folder they are in. `at_once` files are parsed at the
    same time; by default as many as there are processors, and at most four.
    """

    def __init__(
        self,
        pool: ParserPool,
        quarantine: Quarantine,
        known: Mapping[str, FileRecord],
        salt: str,
        max_file_mb: float,
        retry: Set[Path],
        cancelled: Callable[[], bool],
        at_once: int = 0,
    ) -> None:
        self._pool = pool
        self._quarantine = quarantine
        self._known = known
        self._salt = salt
        self._max_file_mb = max_file_mb
        self._retry = retry
        self._cancelled = cancelled
        self._at_once = at_once or min(os.cpu_count() or 1, _MOST_AT_ONCE)

    def ahead(self, sources: Sequence[SourceFile]) -> Iterator[tuple[SourceFile, FileReading]]:
        """Every file with its reading, in order; a few are read before they are asked for.

        Raises IndexingCancelled.
        """
        at_once = max(1, min(len(sources), self._at_once))
        waiting: deque[tuple[SourceFile, Future[FileReading]]] = deque()
        with ThreadPoolExecutor(at_once, thread_name_prefix="read") as threads:
            try:
                for source in sources:
                    waiting.append((source, threads.submit(self.read, source)))
                    if len(waiting) > 2 * at_once:
                        first, reading = waiting.popleft()
                        yield first, reading.result()
                while waiting:
                    first, reading = waiting.popleft()
                    yield first, reading.result()
            finally:
                threads.shutdown(cancel_futures=True)

    def read(self, source: SourceFile, document_id: str = "") -> FileReading:
        """Read one file, as `document_id` if that is given. Raises IndexingCancelled."""
        path = resolved(source.path)
        known = self._known.get(str(path))
        document_id = document_id or (known.document_id if known else source.document_id)
        fingerprint = self._fingerprint(path)
        if known and fingerprint and fingerprint == known.fingerprint:
            return FileReading(fingerprint, document_id)
        if self._retry.isdisjoint((path, *path.parents)) and (reason := self._quarantine.reason(path, fingerprint)):
            return FileReading(fingerprint, document_id, problem=reason + LEFT_ALONE)
        try:
            parsed = self._pool.parse(source.path, document_id, self._max_file_mb, self._cancelled)
        except LoadError as error:
            killed = isinstance(error, ParserKilled)
            return FileReading(fingerprint, document_id, problem=str(error), killed=killed)
        return FileReading(fingerprint, document_id, parsed)

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
        return f"{digest} {self._salt}"
