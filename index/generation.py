"""One version of a collection, open for reading: records, BM25, vectors and filters together.

It answers with rows and turns rows into passages. Which version is read, and how rankings are fused,
is `index.collection`'s.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from index.dense import DenseStore, exact_search
from index.encoders import Vectors
from index.errors import CollectionCorrupt, CollectionMismatch
from index.filters import Filters
from index.lexical import Bm25s, LexicalEngine, LexicalIndex, Mask, NoTerms, RankBm25
from index.query import Passage, Where
from index.records import Records
from index.vectors import open_matrix
from index.versions import Version

if TYPE_CHECKING:
    from index.encoders import Encoder


_log = logging.getLogger(__name__)


class Generation:
    """An open version; stays usable until everyone who uses it has let go and it is retired."""

    def __init__(self, version: Version, encoder: Encoder, lexical: LexicalEngine, chroma_url: str) -> None:
        manifest = version.manifest
        if (manifest.encoder, manifest.dimension) != (encoder.name, encoder.dimension):
            raise CollectionMismatch(
                f"{version.folder} was indexed with the embedding model {manifest.encoder!r}, and {encoder.name!r} "
                "was asked for: index again with this model, or go back to that one"
            )
        if manifest.chroma_url != chroma_url:
            raise CollectionMismatch(
                f"the vectors of {version.folder} are in {manifest.chroma_url or 'its own folder'}, and "
                f"`index.chroma_url` says {chroma_url or 'its own folder'}: index again, or correct the setting"
            )
        if not version.records.is_file():
            raise CollectionCorrupt(f"{version.records} is missing: index again")
        self.manifest = manifest
        self.records = Records(version.records)
        try:
            self.matrix = open_matrix(version.vectors, manifest.passages, manifest.dimension)
            self._ids = self.records.passage_ids()
            self._row = {name: row for row, name in enumerate(self._ids)}
            self._documents = self.records.documents_by_row()
            self._lexical = self._open_lexical(version, lexical)
            self._dense = self._open_dense(version) if self._ids else None
        except BaseException:
            self.records.close()
            raise
        self._filters = Filters(self.records, len(self._ids))
        self._scanning = False
        self._users = 0
        self._retired = False
        self._lock = threading.Lock()

    def _open_lexical(self, version: Version, engine: LexicalEngine) -> LexicalIndex:
        if not version.manifest.terms:
            return NoTerms()
        if engine == "rank-bm25":
            return RankBm25(self.records.terms())
        prepared = version.manifest.lexical == "bm25s"
        return Bm25s.load(version.lexical) if prepared else Bm25s.build(self.records.terms())

    @staticmethod
    def _open_dense(version: Version) -> DenseStore:
        manifest = version.manifest
        store = DenseStore.open(version.dense, manifest.chroma_url, manifest.version)
        # Chroma reads its files at the first query: then they are ours even if the version is deleted.
        store.search(np.ones((1, manifest.dimension), dtype=np.float32), 1)
        return store

    def mask(self, where: Where | None) -> Mask | None:
        """Which rows a filter allows; None where there is no filter."""
        return self._filters.mask(where) if where else None

    def lexical(self, text: str, k: int, mask: Mask | None) -> list[int]:
        """Rows by BM25, best first."""
        return self._lexical.search(text, k, mask)

    def dense(self, vectors: Vectors, k: int, mask: Mask | None) -> list[list[int]]:
        """Rows by similarity to each vector, best first.

        A filtered search scans the vectors that are left: measured faster than Chroma's own filter at
        every size and share, and it finds them all. So does a search that Chroma fails: it opens its database
        anew when it likes to, which is gone by then where two newer versions have been written.
        """
        if self._dense is None:
            return [[] for _ in vectors]
        if mask is not None:
            return exact_search(self.matrix, vectors, k, np.flatnonzero(mask))
        try:
            found = self._dense.search(vectors, min(k, len(self._ids)))
            return [[self._row[name] for name in names] for names in found]
        except KeyError as error:
            problem = f"Chroma holds a passage that the records do not ({error})"
        except CollectionCorrupt as error:
            problem = str(error)
        if not self._scanning:
            self._scanning = True
            _log.warning("version %s scans its vectors where Chroma fails: %s", self.manifest.version, problem)
        return exact_search(self.matrix, vectors, k, np.arange(len(self._ids)))

    def similarities(self, vector: Vectors, rows: Sequence[int]) -> list[float]:
        """Cosines of one vector, `(dimension,)`, to these rows, in their order."""
        similar: list[float] = (self.matrix[list(rows)] @ vector).tolist()
        return similar

    def document_of(self, row: int) -> int:
        """A number for the document of a row."""
        return int(self._documents[row])

    def passages(self, rows: Sequence[int]) -> list[Passage]:
        return self.records.passages(rows)

    def row(self, passage_id: str) -> int:
        """Raises KeyError."""
        return self._row[passage_id]

    def acquire(self) -> None:
        """One more uses this version; `release` must follow."""
        with self._lock:
            self._users += 1

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            done = self._retired and not self._users
        if done:
            self._close()

    def retire(self) -> None:
        """Close as soon as the last user has let go."""
        with self._lock:
            if self._retired:
                return
            self._retired = True
            done = not self._users
        if done:
            self._close()

    def _close(self) -> None:
        self.records.close()
        if self._dense is not None:
            self._dense.close()
