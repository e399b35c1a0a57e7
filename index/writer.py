"""Writes one new version of a collection: embeds what is new, builds every part, switches.

`index.indexer` decides which documents the version holds and stages them here.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Literal, Protocol, TypeAlias, TypeVar

import numpy as np

from index.encoders import Encoder, Vectors
from index.errors import CollectionCorrupt, IndexingCancelled, StorageError, StoreUnavailable
from index.ranking import Bm25s
from index.records import Records, RecordsWriter
from index.stores import OpenVectors, StoreSpec, TermStore, delete_vectors, load_store
from index.version import FORMAT, CollectionFolder, Manifest, Version, failed_write, storage_errors, write_manifest
from text.languages import ENGLISH


class VectorJournal:
    """Vectors by encoder and embedding key, on disk as soon as they are added."""

    def __init__(self, path: Path, encoder: str, dimension: int) -> None:
        self._path = path
        self._encoder = encoder
        self._dimension = dimension
        try:
            self._db = self._open()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            self.delete_files()
            self._db = self._open()

    def _open(self) -> sqlite3.Connection:
        # Used by one thread at a time, which need not be the same one.
        db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute(
                "CREATE TABLE IF NOT EXISTS vectors (encoder TEXT, key BLOB, vector BLOB, PRIMARY KEY (encoder, key))"
                " WITHOUT ROWID"
            )
        except sqlite3.DatabaseError:
            db.close()
            raise
        return db

    def add(self, keys: Sequence[bytes], vectors: Vectors) -> None:
        """Keep these vectors, `(len(keys), dimension)`."""
        self._db.execute("BEGIN")
        self._db.executemany(
            "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)",
            (
                (self._encoder, key, data + _digest(key, data))
                for key, data in zip(keys, (vector.tobytes() for vector in vectors), strict=True)
            ),
        )
        self._db.execute("COMMIT")

    def keys(self) -> set[bytes]:
        """Keys whose vectors this encoder has computed. Reads them all."""
        try:
            rows = self._db.execute("SELECT key, vector FROM vectors WHERE encoder = ?", (self._encoder,))
            return {key for key, blob in rows if self._vector(key, blob)}
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            # Torn by a power cut or damaged: what was in it can be computed again.
            self._db.close()
            self.delete_files()
            self._db = self._open()
            return set()

    def _vector(self, key: bytes, blob: bytes) -> bytes:
        """The vector in what is kept for a key; empty where it is not as it was written."""
        size = self._dimension * np.dtype(np.float32).itemsize
        vector, digest = blob[:size], blob[size:]
        return vector if len(vector) == size and digest == _digest(key, vector) else b""

    def get(self, key: bytes) -> Vectors:
        """One vector, `(dimension,)`; raises KeyError."""
        row = self._db.execute(
            "SELECT vector FROM vectors WHERE encoder = ? AND key = ?", (self._encoder, key)
        ).fetchone()
        if row is None or not (vector := self._vector(key, row[0])):
            raise KeyError(key)
        return np.frombuffer(vector, dtype=np.float32)

    def close(self) -> None:
        self._db.close()

    def delete_files(self) -> None:
        """Remove the journal: the version that was written from it has all its vectors."""
        for suffix in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)


def _digest(key: bytes, vector: bytes) -> bytes:
    return hashlib.blake2b(key + vector, digest_size=8).digest()


class VectorSource:
    """The vector of every key: from the version before, where it is open, or from the journal."""

    def __init__(self, journal: VectorJournal, keys_before: Sequence[bytes], before: OpenVectors | None) -> None:
        self._journal = journal
        self._before = before
        self._row = {key: row for row, key in enumerate(keys_before)} if before is not None else {}
        self.known: set[bytes] = self._row.keys() | journal.keys()

    def take(self, keys: Sequence[bytes]) -> Vectors:
        """Vectors of these keys, `(len(keys), dimension)`, in this order; of at least one."""
        old = [place for place, key in enumerate(keys) if key in self._row]
        new = [place for place, key in enumerate(keys) if key not in self._row]
        parts = [np.stack([self._journal.get(keys[place]) for place in new])] if new else []
        if old and self._before is not None:
            parts.append(self._before.take([self._row[keys[place]] for place in old]))
        vectors = np.concatenate(parts)
        result = np.empty_like(vectors)
        result[new + old] = vectors
        return result


EMBED_BATCH = 32
WORDS_FIRST = 256
"""More passages than this are searched by words before all of them are embedded, where the caller allows it."""

_log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")


class Workers(Protocol):
    """Processes that share the work of a run: reading files and embedding passages. All of it is pickled.

    Without any, the run's own process does it. A plugin's workers (entry points `anaphora.workers`) get the functions
    that one process has and the same batches, so that passages, vectors and errors are the same.
    """

    def map(self, work: Callable[[T], R], items: Sequence[T], *, gpu: bool = False) -> Iterator[R]:
        """Apply `work` to each item and yield the results in order, some computed ahead; `gpu` where one is of use.

        Raises IndexingError, or what `work` raises.
        """


Stage: TypeAlias = Literal["reading", "embedding", "saving"]


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How far a run is: files while reading, passages while embedding, parts while saving."""

    stage: Stage
    done: int
    total: int


Report: TypeAlias = Callable[[IndexProgress], None]
Cancelled: TypeAlias = Callable[[], bool]


@dataclass
class VersionWriter:
    """A version in the making, as a context: on leaving it without `finish` nothing has changed.

    The caller holds the collection's writer lock. `before` is the version that serves, if any. Without `language`
    (`index.language`) its words are stemmed as before. `enough` is asked between batches of embedding: once it says
    yes, the version is finished with the vectors at hand, words find the other passages, and the next run goes on.
    Stores that rank by words as well hold all vectors or none, so `enough` is not asked for them.
    """

    folder: CollectionFolder
    encoder: Encoder
    spec: StoreSpec
    progress: Report | None = None
    cancelled: Cancelled | None = None
    language: str | None = None
    workers: Workers | None = None
    enough: Cancelled | None = None

    def __post_init__(self) -> None:
        self._store = load_store(self.spec)
        # Its texts are enough to go on from: what is damaged besides is made again.
        self.before = next(self.folder.sound("records"), None)
        self._stemmed = self.before.manifest.language if self.before else ENGLISH
        self._language = self.language or self._stemmed
        self.embedded = 0
        self.without_vector = self.before.manifest.without_vector if self.before else 0
        self._previous: tuple[list[bytes], OpenVectors] | None = None

    def __enter__(self) -> VersionWriter:
        with storage_errors(self.folder.path):
            # What killed writers left, and versions that no reader can still need.
            remove_versions(self.folder.stale(), self.folder, self.spec)
            self._previous = self._open_previous()
            self._path = self.folder.new_version(self.before.manifest.version if self.before else "")
            before = self.before.records if self.before else None
            self.staged = RecordsWriter(self._path / "staged.sqlite", before, self._language)
            if self._language != self._stemmed:
                self.staged.stem_again()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.staged.close()
        if self._previous:
            self._previous[1].close()
        if self.folder.named() != self._path.name:
            self._store.delete(self._path)
            shutil.rmtree(self._path, ignore_errors=True)
        if isinstance(error, sqlite3.Error):
            # Only staging writes to SQLite outside of `finish`.
            raise failed_write(self._path, error) from error

    @property
    def outdated(self) -> bool:
        """Whether the version that serves must be written again though no document changed."""
        if self.before is None:
            return False
        if self.before.manifest.version != self.folder.named() or self.before.damaged():
            return True
        manifest = self.before.manifest
        unreadable = manifest.passages > 0 and self._previous is None
        wanted = self.encoder.name, self.spec, self._language
        present = manifest.encoder, manifest.store, manifest.language
        return unreadable or manifest.without_vector > 0 or present != wanted

    def report(self, stage: Stage, done: int, total: int) -> None:
        """Tell how far the run is; raises IndexingCancelled once that is asked for."""
        if self.progress:
            self.progress(IndexProgress(stage, done, total))
        if self.cancelled and self.cancelled():
            raise IndexingCancelled(
                f"indexing of collection {self.folder.name!r} was stopped: nothing was changed, what was embedded is "
                "kept, and running it again goes on from there"
            )

    def finish(self) -> str:
        """Embed, save and switch; returns the id of the new version.

        Raises StorageError, IndexingCancelled, or whatever the encoder raises: the version before
        serves on, and the vectors computed so far are kept for the next run.
        """
        with storage_errors(self.folder.path):
            with closing(VectorJournal(self.folder.journal, self.encoder.name, self.encoder.dimension)) as journal:
                source = VectorSource(journal, *(self._previous or ([], None)))
                self._embed(source.known, journal)
                version = self._save(source)
            self.folder.switch(version.manifest.version)
            journal.delete_files()
            remove_versions(self.folder.stale(), self.folder, self.spec)
        return version.manifest.version

    def _open_previous(self) -> tuple[list[bytes], OpenVectors] | None:
        """The newest version with vectors of this encoder that can be read, even if it is otherwise damaged."""
        for candidate in self.folder.candidates():
            try:
                version = self.folder.version(candidate)
                manifest = version.manifest
                if not manifest.passages or manifest.encoder != self.encoder.name:
                    continue
                version.check("records", "vectors")
                return _opened(version)
            except (FileNotFoundError, CollectionCorrupt, StorageError, StoreUnavailable) as error:
                # A server that is away keeps its vectors; what is lost, or being left, is embedded again.
                if isinstance(error, StorageError) and manifest.store == self.spec:
                    raise
                _log.warning("vectors cannot be reused: %s", error)
        return None

    def _embed(self, cached: set[bytes], journal: VectorJournal) -> None:
        missing = [(key, text) for key, text in self.staged.texts_by_key() if key not in cached]
        # Texts of like length together pad little; the longest first, so that the estimate only improves.
        missing.sort(key=lambda item: len(item[1]), reverse=True)
        batches = [missing[start : start + EMBED_BATCH] for start in range(0, len(missing), EMBED_BATCH)]
        partial = self.enough and len(missing) > WORDS_FIRST and not isinstance(self._store, TermStore)
        if partial:
            # Whatever is embedded by then is a fair sample of the documents.
            Random(0).shuffle(batches)
        texts = [[text for _, text in batch] for batch in batches]
        encode = self.encoder.encode
        vectors = self.workers.map(encode, texts, gpu=True) if self.workers else map(encode, texts)
        for batch in batches:
            self.report("embedding", self.embedded, len(missing))
            added = [key for key, _ in batch]
            journal.add(added, next(vectors))
            cached.update(added)
            self.embedded += len(batch)
            if partial and self.enough and self.enough():
                break
        self.report("embedding", self.embedded, len(missing))

    def _save(self, source: VectorSource) -> Version:
        documents, passages = self.staged.count()
        rows = np.array([row for row, key in enumerate(self.staged.keys()) if key in source.known], dtype=np.int64)
        self.without_vector = passages - len(rows)
        parts = 4
        self.report("saving", 0, parts)
        manifest = Manifest(
            format=FORMAT,
            version=self._path.name,
            previous=self.before.manifest.version if self.before else "",
            created=time.time(),
            encoder=self.encoder.name,
            dimension=self.encoder.dimension,
            store=self.spec,
            documents=documents,
            passages=passages,
            terms=self.staged.has_terms(),
            language=self._language,
            languages=self.staged.languages() or (ENGLISH,),
            without_vector=self.without_vector,
        )
        version = Version(self._path, manifest)
        self.staged.finish(version.records)
        self.staged.close()
        self.report("saving", 1, parts)
        with closing(Records(version.records)) as records:
            if manifest.terms:
                lexical = Bm25s.build(records.terms())
                if isinstance(self._store, TermStore):
                    self._store.write_terms(self._path, passages, lexical.weights())
                else:
                    lexical.save(version.lexical)
            self.report("saving", 2, parts)
            keys, ids = records.keys(), records.passage_ids()
        if passages:

            def take(places: Sequence[int]) -> Vectors:
                return source.take([keys[rows[place]] for place in places])

            if self.without_vector:
                np.save(version.vector_rows, rows)
            self._store.write(self._path, [ids[row] for row in rows], self.encoder.dimension, take)
        self.report("saving", 3, parts)
        write_manifest(self._path, manifest)
        self.report("saving", 4, parts)
        return version


def remove_versions(paths: Iterable[Path], folder: CollectionFolder, store: StoreSpec) -> None:
    """Take versions away with their vectors; the caller holds the writer's lock. One without manifest is `store`'s."""
    for path in paths:
        try:
            delete_vectors(folder.version(path.name).manifest.store, path)
        except (FileNotFoundError, CollectionCorrupt):
            load_store(store).delete(path)
        shutil.rmtree(path, ignore_errors=True)


def _opened(version: Version) -> tuple[list[bytes], OpenVectors]:
    """The embedding keys of a version's passages, and their vectors, open."""
    with closing(Records(version.records)) as records:
        ids, keys = records.passage_ids(), records.keys()
    if (rows := version.rows_with_vectors()) is not None:
        ids, keys = [ids[row] for row in rows], [keys[row] for row in rows]
    store = load_store(version.manifest.store)
    return keys, store.open(version.folder, ids, version.manifest.dimension)
