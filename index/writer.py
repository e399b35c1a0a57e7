"""Writes one new version of a collection: embeds what is new, builds every part, switches.

`index.indexer` decides which documents the version holds and stages them here.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, TypeAlias

import numpy as np

from index.dense import build_store, delete_store, update_store
from index.encoders import Encoder
from index.errors import CollectionCorrupt, CollectionNotFound, IndexingCancelled
from index.lexical import Bm25s, LexicalEngine
from index.manifest import FORMAT, Manifest, write_manifest
from index.records import Records, RecordsWriter
from index.vectors import VectorJournal, VectorSource, open_matrix, write_matrix
from index.versions import CollectionFolder, Version, failed_write, storage_errors

EMBED_BATCH = 32

Stage: TypeAlias = Literal["reading", "embedding", "saving"]


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How far a run is: files while reading, passages while embedding, parts while saving."""

    stage: Stage
    done: int
    total: int
    file: str = ""


Report: TypeAlias = Callable[[IndexProgress], None]
Cancelled: TypeAlias = Callable[[], bool]


class VersionWriter:
    """A version in the making, as a context: on leaving it without `finish` nothing has changed.

    The caller holds the collection's writer lock. `before` is the version that serves, if any.
    """

    def __init__(
        self,
        folder: CollectionFolder,
        encoder: Encoder,
        lexical: LexicalEngine,
        chroma_url: str,
        progress: Report | None = None,
        cancelled: Cancelled | None = None,
    ) -> None:
        self._folder = folder
        self._encoder = encoder
        self._lexical = lexical
        self._chroma_url = chroma_url
        self._progress = progress or (lambda _: None)
        self._cancelled = cancelled or (lambda: False)
        self.before = _serving(folder)
        self.embedded = 0

    def __enter__(self) -> VersionWriter:
        with storage_errors(self._folder.path):
            self._sweep()
            self._path = self._folder.new_version(self.before.manifest.version if self.before else "")
            self.staged = RecordsWriter(self._path / "staged.sqlite", self.before.records if self.before else None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.staged.close()
        if not self._serves():
            delete_store(self._chroma_url, self._path / "dense", self._path.name)
            shutil.rmtree(self._path, ignore_errors=True)
        if isinstance(error, sqlite3.Error):
            # Only staging writes to SQLite outside of `finish`.
            raise failed_write(self._path, error) from error

    @property
    def outdated(self) -> bool:
        """Whether the version that serves must be written again though no document changed."""
        if self.before is None:
            return False
        made = self.before.manifest
        asked = (self._encoder.name, self._encoder.dimension, self._lexical, self._chroma_url)
        return (made.encoder, made.dimension, made.lexical, made.chroma_url) != asked

    def _serves(self) -> bool:
        try:
            return self._folder.current_id() == self._path.name
        except (CollectionNotFound, CollectionCorrupt):
            return False

    def _sweep(self) -> None:
        """Remove what killed writers left, and versions that no reader can still need."""
        for path in self._folder.stale():
            delete_store(self._url(path), path / "dense", path.name)
            shutil.rmtree(path, ignore_errors=True)

    def _url(self, path: Path) -> str:
        try:
            return self._folder.version(path.name).manifest.chroma_url
        except (FileNotFoundError, CollectionCorrupt):
            return self._chroma_url

    def report(self, stage: Stage, done: int, total: int, file: str = "") -> None:
        """Tell how far the run is; raises IndexingCancelled once that is asked for."""
        self._progress(IndexProgress(stage, done, total, file))
        if self._cancelled():
            raise IndexingCancelled(
                f"indexing of collection {self._folder.name!r} was stopped: nothing was changed, what was embedded is "
                "kept, and running it again goes on from there"
            )

    def finish(self) -> str:
        """Embed, save and switch; returns the id of the new version.

        Raises StorageError, IndexingCancelled, or whatever the encoder raises: the version before
        serves on, and the vectors computed so far are kept for the next run.
        """
        with storage_errors(self._folder.path):
            journal = VectorJournal(self._folder.journal, self._encoder.name, self._encoder.dimension)
            try:
                source = self._vectors_before(journal)
                self._embed(source.known, journal)
                source = self._vectors_before(journal)
                version = self._save(source)
            finally:
                journal.close()
            self._folder.switch(version.manifest.version)
            journal.delete_files()
            self._sweep()
        return version.manifest.version

    def _vectors_before(self, journal: VectorJournal) -> VectorSource:
        before = self.before
        if before is None or before.manifest.encoder != self._encoder.name:
            return VectorSource(journal, [], None)
        records = Records(before.records)
        try:
            keys = records.keys()
        finally:
            records.close()
        matrix = open_matrix(before.vectors, before.manifest.passages, before.manifest.dimension)
        return VectorSource(journal, keys, matrix)

    def _embed(self, known: set[bytes], journal: VectorJournal) -> None:
        missing = [(key, text) for key, text in self.staged.texts_by_key() if key not in known]
        # Texts of like length together pad little; the longest first, so that the estimate only improves.
        missing.sort(key=lambda item: len(item[1]), reverse=True)
        for start in range(0, len(missing), EMBED_BATCH):
            self.report("embedding", start, len(missing))
            batch = missing[start : start + EMBED_BATCH]
            journal.add([key for key, _ in batch], self._encoder.encode([text for _, text in batch]))
            self.embedded += len(batch)
        self.report("embedding", len(missing), len(missing))

    def _save(self, source: VectorSource) -> Version:
        documents, passages = self.staged.count()
        parts = 4
        self.report("saving", 0, parts)
        manifest = Manifest(
            format=FORMAT,
            version=self._path.name,
            previous=self.before.manifest.version if self.before else "",
            created=time.time(),
            encoder=self._encoder.name,
            dimension=self._encoder.dimension,
            lexical=self._lexical,
            chroma_url=self._chroma_url,
            documents=documents,
            passages=passages,
            terms=self.staged.has_terms(),
        )
        version = Version(self._path, manifest)
        self.staged.finish(version.records)
        self.staged.close()
        records = Records(version.records)
        try:
            self.report("saving", 1, parts)
            keys = records.keys()
            write_matrix(version.vectors, manifest.dimension, passages, source.chunks(keys))
            self.report("saving", 2, parts)
            if manifest.terms and manifest.lexical == "bm25s":
                Bm25s.build(records.terms()).save(version.lexical)
            self.report("saving", 3, parts)
            if passages:
                self._save_dense(version, records.passage_ids(), keys)
            self.report("saving", 4, parts)
        finally:
            records.close()
        write_manifest(self._path, manifest)
        return version

    def _save_dense(self, version: Version, ids: list[str], keys: list[bytes]) -> None:
        manifest = version.manifest
        matrix = open_matrix(version.vectors, manifest.passages, manifest.dimension)
        before = self.before
        if before is not None and not self._chroma_url and _alike(before.manifest, manifest):
            records = Records(before.records)
            try:
                old = dict(zip(records.passage_ids(), records.keys(), strict=True))
            finally:
                records.close()
            changed = [row for row, name in enumerate(ids) if old.get(name) != keys[row]]
            gone = sorted(old.keys() - set(ids))
            new_ids = [ids[row] for row in changed]
            if update_store(
                version.dense, manifest.version, before.dense, gone, new_ids, np.asarray(matrix[changed]), len(ids)
            ):
                return
        chunks = (np.asarray(matrix[start : start + 1000]) for start in range(0, len(ids), 1000))
        build_store(version.dense, self._chroma_url, manifest.version, ids, chunks)


def _alike(before: Manifest, after: Manifest) -> bool:
    return (before.encoder, before.chroma_url) == (after.encoder, after.chroma_url)


def _serving(folder: CollectionFolder) -> Version | None:
    try:
        return folder.current()
    except CollectionNotFound:
        return None
