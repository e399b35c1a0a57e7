"""Brings a collection up to date with files, documents or deletions: only what changed is done again.

This decides what the next version holds; `index.writer` writes it. A file that fails never stops the
rest, and what was indexed of it before stays. One that its parser was killed over is not parsed again until it changes
or somebody asks: that is kept beside the versions, and written at once.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias

from index.documents import Document
from index.encoders import Encoder
from index.errors import CollectionNotFound, DocumentNotFound, LoadError, ParserKilled
from index.loaders import SourceFile, walk
from index.loaders.addresses import Addresses, addressed, fields_of
from index.loaders.files import LAYOUT, MAX_FILE_MB
from index.loaders.reading import MEBIBYTE, RAPIDOCR, find_recogniser
from index.loaders.sandbox import Limits, Parsed, ParserPool, shared_pool
from index.passages import split
from index.records import FileRecord
from index.stores import EXACT, StoreSpec
from index.version import TEXTS, CollectionFolder
from index.writer import Cancelled, Report, VersionWriter, Workers, remove_versions
from index.writer import IndexProgress as IndexProgress
from text.files import path_text, resolved, write_json

PASSAGE_TOKENS = 220
_SPECIAL_TOKENS = 2
MAX_PASSAGES = 20_000
"""Passages of a document that are searched, of those that are split here: about 16 MB of prose, or 5,000 full pages."""

Outcome: TypeAlias = Literal["indexed", "unchanged", "failed", "skipped", "deleted"]


@dataclass(frozen=True, slots=True)
class FileStatus:
    """Outcome for one file. `message` says why, or what was left out; `passages` counts."""

    path: str
    document_id: str
    status: Outcome
    message: str = ""
    passages: int = 0


@dataclass(frozen=True, slots=True)
class IndexReport:
    """Outcome of a run. `version` is empty if there is still no collection; `embedded` counts passages.

    So many as `without_vector` are found by words alone until another run embeds them: `enough` ended this one.
    """

    files: list[FileStatus]
    version: str
    seconds: float
    embedded: int
    without_vector: int = 0


def index_paths(
    root: Path,
    name: str,
    paths: Sequence[Path],
    encoder: Encoder,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    passage_tokens: int = PASSAGE_TOKENS,
    max_file_mb: float = MAX_FILE_MB,
    prune: bool = True,
    retry: Sequence[Path] = (),
    limits: Limits | None = None,
    store: StoreSpec = EXACT,
    language: str | None = None,
    site_urls: Mapping[str, str] = MappingProxyType({}),
    progress: Report | None = None,
    cancelled: Cancelled | None = None,
    workers: Workers | None = None,
    enough: Cancelled | None = None,
) -> IndexReport:
    """Index files and folders into a collection, made if need be.

    A file whose bytes and splitting are as before is not read again. With `prune`, files that were indexed from under
    these paths and are no longer among them are deleted from the collection; files from elsewhere stay.
    `passage_tokens` is cut to the encoder's window. `store` is where its vectors are kept from now on, and `language`
    (`index.language`) what its words are stemmed by: None leaves that as it was. `site_urls` tells for folders where
    people open their pages (`index.loaders.addresses.page_address`). Files are parsed by other processes within
    `limits`; one that goes beyond them is left alone from then on, until it changes or `retry` names it or its folder.
    `cancelled` is asked while files are parsed and between batches. `workers` read and embed in the place of this
    process. `enough` ends embedding early, as for `VersionWriter`.

    Raises LoadError if the paths hold no document at all (nothing is changed), InvalidName,
    CollectionLocked, CollectionCorrupt, StorageError, StoreUnavailable or IndexingCancelled.
    """
    began = time.monotonic()
    folder = CollectionFolder(root, name)
    sources = list(walk(paths, include, exclude))
    if not sources:
        places = ", ".join(map(path_text, paths)) or "no path"
        raise LoadError(
            f"there is no document in {places}: check the path, `include` and `exclude`; nothing was changed"
        )
    window = min(passage_tokens, encoder.max_tokens - _SPECIAL_TOKENS)
    with (
        folder.writing(),
        VersionWriter(folder, encoder, store, progress, cancelled, language, workers, enough) as writer,
    ):
        reader = FileReader(
            shared_pool(limits or Limits()),
            Quarantine(folder.path),
            writer.staged.files(),
            f"{TEXTS} {window} {encoder.name}",
            max_file_mb,
            {resolved(path) for path in retry},
            cancelled or (lambda: False),
            Addresses({resolved(Path(folder)): site for folder, site in site_urls.items()}),
        )
        run = _IndexRun(writer, window, reader, {resolved(path) for path in paths})
        files: list[FileStatus] = []
        for done, (source, reading) in enumerate(reader.ahead(sources, workers)):
            writer.report("reading", done, len(sources))
            files.append(run.take(source, reading))
        writer.report("reading", len(sources), len(sources))
        if prune:
            files.extend(run.prune({resolved(source.path) for source in sources}))
        return _finish(writer, files, run.changed, began)


def index_documents(
    root: Path,
    name: str,
    documents: Iterable[Document],
    encoder: Encoder,
    *,
    store: StoreSpec = EXACT,
    language: str | None = None,
    progress: Report | None = None,
    cancelled: Cancelled | None = None,
    enough: Cancelled | None = None,
) -> IndexReport:
    """Index documents that a program made, each in the place of the one of its id; others stay.

    `language` and `enough` as for `index_paths`. Without documents it embeds what an earlier run left.
    """
    began = time.monotonic()
    folder = CollectionFolder(root, name)
    window = min(PASSAGE_TOKENS, encoder.max_tokens - _SPECIAL_TOKENS)
    with (
        folder.writing(),
        VersionWriter(folder, encoder, store, progress, cancelled, language, enough=enough) as writer,
    ):
        files: list[FileStatus] = []
        for document in documents:
            writer.report("reading", len(files), len(files) + 1)
            added, warnings = _add(writer, document, "", window)
            files.append(FileStatus("", document.id, "indexed", "; ".join(warnings), added))
        return _finish(writer, files, bool(files), began)


def delete_documents(
    root: Path, name: str, document_ids: Sequence[str], encoder: Encoder, *, store: StoreSpec = EXACT
) -> IndexReport:
    """Remove documents from a collection, with all their passages, vectors and terms. Embeds nothing that can wait.

    Raises CollectionNotFound, or DocumentNotFound if one of the ids is not there (nothing is changed).
    """
    began = time.monotonic()
    folder = CollectionFolder(root, name)
    folder.require()
    with folder.writing(), VersionWriter(folder, encoder, store, enough=lambda: True) as writer:
        owners = writer.staged.owners()
        missing = [name for name in document_ids if name not in owners]
        if missing:
            raise DocumentNotFound(f"collection {name!r} has no document {missing[0]!r}; nothing was deleted")
        files: list[FileStatus] = []
        for document_id in dict.fromkeys(document_ids):
            path = owners[document_id]
            writer.staged.remove_document(document_id)
            if path and not writer.staged.documents_of(path):
                writer.staged.remove_file(path)
            files.append(FileStatus(path, document_id, "deleted"))
        return _finish(writer, files, bool(files), began)


def erase_documents(
    root: Path, name: str, document_ids: Sequence[str], encoder: Encoder, *, store: StoreSpec = EXACT
) -> None:
    """Remove documents so that no file of the collection holds their words: every version but the new one goes too.

    So do vectors that an unfinished run left. Readers of an older version keep it in memory until they look for a newer
    one. Raises CollectionNotFound, DocumentNotFound (nothing is changed then), CollectionLocked or StorageError.
    """
    delete_documents(root, name, document_ids, encoder, store=store)
    folder = CollectionFolder(root, name)
    serving = folder.named()
    if not serving:
        raise CollectionNotFound(f"there is no collection {name!r}")
    with folder.writing():
        remove_versions([path for path in folder.versions.iterdir() if path.name != serving], folder, store)
        for path in folder.path.glob(f"{folder.journal.name}*"):
            path.unlink(missing_ok=True)


def _finish(writer: VersionWriter, files: list[FileStatus], changed: bool, began: float) -> IndexReport:
    version = writer.before.manifest.version if writer.before else ""
    if changed or writer.outdated:
        version = writer.finish()
    return IndexReport(files, version, time.monotonic() - began, writer.embedded, writer.without_vector)


@dataclass
class _IndexRun:
    """One run over files: which of them changed, and what the staged version holds of each."""

    writer: VersionWriter
    window: int
    reader: FileReader
    given: set[Path]
    changed: bool = False

    def __post_init__(self) -> None:
        self._staged = self.writer.staged
        self._files = self._staged.files()
        self._owners = self._staged.owners()

    def take(self, source: SourceFile, reading: FileReading) -> FileStatus:
        """Index a file if it is new or changed."""
        path = resolved(source.path)
        record = self._files.get(str(path))
        document_id = record.document_id if record else self._free_id(source, path)
        if reading.unchanged:
            warning = record.warning if record else ""
            return FileStatus(
                path_text(source.path), document_id, "unchanged", warning, self._staged.passages_of(str(path))
            )
        if reading.parsed is not None and not path.exists():
            return self._failed(source, path, document_id, record, f"{path.name} disappeared while it was read")
        if reading.parsed is not None and reading.document_id != document_id:
            reading = self.reader.read(source, document_id)
        if reading.killed:
            self.reader.quarantine.add(path, reading.fingerprint, reading.problem)
        if reading.parsed is None:
            problem = reading.problem + (LEFT_ALONE if reading.killed else "")
            return self._failed(source, path, document_id, record, problem)
        self.reader.quarantine.release(path)
        file = FileRecord(str(path), document_id, reading.fingerprint)
        return self._stage(source, path, file, reading.parsed.documents, reading.parsed.warnings)

    def _failed(
        self, source: SourceFile, path: Path, document_id: str, record: FileRecord | None, message: str
    ) -> FileStatus:
        if path not in self.given and not path.exists():
            # `prune` will see that it is gone.
            return FileStatus(path_text(source.path), document_id, "skipped", "the file disappeared while indexing")
        if record:
            message += "; what was indexed of it before stays"
        return FileStatus(path_text(source.path), document_id, "failed", message)

    def _stage(
        self, source: SourceFile, path: Path, file: FileRecord, documents: list[Document], warnings: list[str]
    ) -> FileStatus:
        self.changed = True
        self._forget(str(path))
        total = 0
        about = self.reader.addresses.of(source)
        for document in (addressed(document, about) for document in documents) if about else documents:
            owner = self._owners.get(document.id, "")
            if owner and owner != str(path):
                if Path(owner).exists():
                    warnings.append(f"document {document.id!r} is already there from {owner}: left out")
                    continue
                self._forget(owner)
            added, left_out = _add(self.writer, document, str(path), self.window)
            warnings += left_out
            self._owners[document.id] = str(path)
            total += added
        warning = "; ".join(warnings)
        self._staged.add_file(replace(file, warning=warning))
        if not total:
            return FileStatus(path_text(source.path), file.document_id, "skipped", warning or "there is no text in it")
        return FileStatus(path_text(source.path), file.document_id, "indexed", warning, total)

    def _forget(self, path: str) -> None:
        for document_id in self._staged.documents_of(path):
            self._owners.pop(document_id, None)
        self._staged.remove_file(path)

    def prune(self, seen: set[Path]) -> list[FileStatus]:
        """Delete what was indexed from under the given paths and is no longer there."""
        deleted: list[FileStatus] = []
        for path, file in sorted(self._files.items()):
            here = Path(path)
            if here in seen and here.exists():
                continue
            if here in self.given or self.given.intersection(here.parents):
                self._forget(path)
                self.changed = True
                deleted.append(FileStatus(path, file.document_id, "deleted", "the file is no longer there"))
        return deleted

    def _free_id(self, source: SourceFile, path: Path) -> str:
        """The file's id, with its folder's name in front where another file has that id already."""
        ids = {file.document_id: file.path for file in self._files.values()}
        folder = path_text(source.root.resolve().name)
        marks = ("", *(f" ({number})" for number in range(2, 100)))
        for candidate in (source.document_id, *(f"{folder}{mark}/{source.document_id}" for mark in marks)):
            owner = self._owners.get(candidate) or ids.get(candidate)
            if not owner or owner == str(path) or not Path(owner).exists():
                return candidate
        raise LoadError(f"{source.path} has no free id: rename it")


def _add(writer: VersionWriter, document: Document, path: str, window: int) -> tuple[int, list[str]]:
    """Stage the first `MAX_PASSAGES` passages of a document; how many they are, and what was left out."""
    warnings: list[str] = []
    passages = split(document, window, writer.encoder.count_tokens, MAX_PASSAGES + 1)
    if len(passages) > MAX_PASSAGES and not document.verbatim:
        at = 100 * passages[MAX_PASSAGES].start // len(document.text)
        warnings.append(f"only its first {MAX_PASSAGES:,} passages, {at} % of it, are searched: split the file")
        passages = passages[:MAX_PASSAGES]
    if repeated := writer.staged.add_document(document, path, passages):
        warnings.append(f"{repeated} passages left out: their ids are used by others")
    return len(passages) - repeated, warnings


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
        write_json(self._path, {"files": self._files})

    def release(self, path: Path) -> None:
        """Forget a file, if it is known. Raises OSError."""
        if self._files.pop(str(path), None) is not None:
            write_json(self._path, {"files": self._files})

    def _read(self) -> dict[str, dict[str, str]]:
        try:
            files = json.loads(self._path.read_text("utf-8"))["files"]
        except (OSError, ValueError, KeyError, TypeError):
            return {}  # the worst that follows is that a file is tried once more
        sound = isinstance(files, dict) and all(isinstance(entry, dict) for entry in files.values())
        return files if sound else {}


# A larger file is not read to see whether it changed: its loader will refuse it.
_HASHED = 32
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


@dataclass
class FileReader:
    """Reads files for one run. `known` is what was indexed before, by path; `salt` names how passages are made.

    Quarantined files are read too where `retry` holds them or a folder they are in.
    `at_once` files are parsed at the same time; by default as many as there are processors, and at most four.
    """

    pool: ParserPool
    quarantine: Quarantine
    known: Mapping[str, FileRecord]
    salt: str
    max_file_mb: float
    retry: Set[Path]
    cancelled: Callable[[], bool]
    addresses: Addresses
    at_once: int = field(default_factory=lambda: min(os.cpu_count() or 1, _MOST_AT_ONCE))

    def __getstate__(self) -> dict[str, object]:
        """A reader for another process is not cancelled but killed."""
        return {**self.__dict__, "cancelled": bool}

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
        with ThreadPoolExecutor(self.at_once, thread_name_prefix="read") as threads:
            try:
                for source in sources:
                    waiting.append((source, threads.submit(self.read, source)))
                    if len(waiting) > 2 * self.at_once:
                        first, reading = waiting.popleft()
                        yield first, reading.result()
                for first, reading in waiting:
                    yield first, reading.result()
            finally:
                threads.shutdown(cancel_futures=True)

    def read(self, source: SourceFile, document_id: str = "") -> FileReading:
        """Read one file, as `document_id` if that is given. Raises IndexingCancelled."""
        path = resolved(source.path)
        record = self.known.get(str(path))
        document_id = document_id or (record.document_id if record else source.document_id)
        if path_text(path) != str(path):
            return FileReading("", document_id, problem=NOT_UTF8)
        fingerprint = self._fingerprint(path)
        if fingerprint and (about := self.addresses.of(source)):
            fingerprint += f" {about.get('url', '')} {about.get('title', '')}"
            if fields := fields_of(about):
                fingerprint += f" {fields}"
        if record and fingerprint and fingerprint == record.fingerprint:
            return FileReading(fingerprint, document_id)
        if (reason := self.quarantine.reason(path, fingerprint)) and self.retry.isdisjoint((path, *path.parents)):
            return FileReading(fingerprint, document_id, problem=reason + LEFT_ALONE)
        try:
            parsed = self.pool.parse(source.path, document_id, self.max_file_mb, self.cancelled)
        except LoadError as error:
            return FileReading(fingerprint, document_id, problem=str(error), killed=isinstance(error, ParserKilled))
        return FileReading(fingerprint, document_id, parsed)

    def _fingerprint(self, path: Path) -> str:
        try:
            status = path.stat()
            # Looked at before it is opened: opening a pipe waits for its other end, and its loader will refuse it.
            if not stat.S_ISREG(status.st_mode) or status.st_size > self.max_file_mb * _HASHED * MEBIBYTE:
                return ""
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return ""
        # How a PDF is read is of its own: another way of it concerns no other file.
        limits = self.pool.limits
        read = f" {LAYOUT}" if path.suffix.lower() == ".pdf" else ""
        if read and (program := find_recogniser()):
            read += f" {RAPIDOCR}" * (program == RAPIDOCR) + f" {limits.ocr_languages}"
        return f"{digest} {self.salt}{read}"
