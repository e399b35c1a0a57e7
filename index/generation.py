"""One version of a collection, open for reading: records, BM25, vectors and filters together.

It answers with rows and turns rows into passages. Which version is read, and how rankings are fused,
is `index.collection`'s.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from index.encoders import Vectors
from index.errors import CollectionCorrupt, CollectionMismatch
from index.filters import Filters
from index.integrity import Watch
from index.lexical import Bm25s, LexicalIndex, NoTerms
from index.query import Passage, Where
from index.records import Records
from index.stores import Mask, Neighbours, OpenTerms, StoreSpec, load_store
from index.versions import Version

if TYPE_CHECKING:
    from index.encoders import Encoder


class Generation:
    """An open version; stays usable until everyone who uses it has let go and it is retired."""

    def __init__(self, version: Version, encoder: Encoder, store: StoreSpec, watch: Watch) -> None:
        self.watch = watch
        manifest = version.manifest
        if (manifest.encoder, manifest.dimension) != (encoder.name, encoder.dimension):
            raise CollectionMismatch(
                f"{version.folder} was indexed with the embedding model {manifest.encoder!r}, and {encoder.name!r} "
                "was asked for: index again with this model (the workbench has a button), or name that one as "
                "`index.encoder`"
            )
        if manifest.store != store:
            raise CollectionMismatch(
                f"the vectors of {version.folder} are in the store {manifest.store}, and {store} was asked for: "
                "index again, or correct `index.store` and `index.store_url`"
            )
        if not version.records.is_file():
            raise CollectionCorrupt(f"{version.records} is missing: index again")
        self.manifest = manifest
        self.records = Records(version.records)
        try:
            ids = self.records.passage_ids()
            self._row = {name: row for row, name in enumerate(ids)}
            self._documents = self.records.documents_by_row()
            self._vectors = load_store(store).open(version.folder, ids, manifest.dimension) if ids else None
            self._lexical = self._open_lexical(version)
        except BaseException:
            self.records.close()
            raise
        self._filters = Filters(self.records, len(ids))
        self._users = 0
        self._retired = False
        self._lock = threading.Lock()

    def _open_lexical(self, version: Version) -> LexicalIndex:
        if not version.manifest.terms:
            return NoTerms()
        languages = version.manifest.languages
        if isinstance(self._vectors, OpenTerms):
            return self._vectors.terms(languages)
        return Bm25s.load(version.lexical, languages)

    def mask(self, where: Where | None) -> Mask | None:
        """Which rows a filter allows; None where there is no filter."""
        return self._filters.mask(where) if where else None

    def lexical(self, text: str, k: int, mask: Mask | None) -> list[int]:
        """Rows by BM25, best first."""
        return self._lexical.search(text, k, mask)

    def dense(self, vectors: Vectors, k: int, mask: Mask | None) -> list[Neighbours]:
        """Rows by similarity to each vector, best first, with their cosines."""
        if self._vectors is None:
            return [Neighbours([], []) for _ in vectors]
        return self._vectors.search(vectors, k, mask)

    def vectors(self, ids: Sequence[str]) -> Vectors:
        """Vectors of these passages, in their order; raises KeyError."""
        rows = [self._row[name] for name in ids]
        if self._vectors is None or not rows:
            return np.zeros((0, self.manifest.dimension), dtype=np.float32)
        return self._vectors.take(rows)

    def document_of(self, row: int) -> int:
        """A number for the document of a row."""
        return int(self._documents[row])

    def passages(self, rows: Sequence[int]) -> list[Passage]:
        return self.records.passages(rows)

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
        if self._vectors is not None:
            self._vectors.close()
