"""Finding texts within one document: BM25 and, where there is an encoder, vectors, fused by rank.

A document is small, so everything is held in memory and nothing is kept. Which texts (passages, sentences) and what is
asked for is left to whoever searches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from index.encoders import Encoder, Vectors
from index.fusion import fuse
from index.lexical import K1, Bm25s, NoTerms
from text.words import tokenize

WithinRanking = Literal["bm25", "dense", "fused"]


class Within:
    """The texts of one document, to be searched. Blocks; encoding takes some milliseconds a text."""

    def __init__(
        self, texts: Sequence[str], encoder: Encoder | None = None, vectors: Vectors | None = None, k1: float = K1
    ) -> None:
        """`vectors` are the texts' own where they are there already, `(len(texts), dimension)`, L2-normalised."""
        self.texts = list(texts)
        self._encoder = encoder
        self._vectors = vectors
        terms = [tokenize(text) for text in self.texts]
        self._lexical: Bm25s | NoTerms = Bm25s.build(terms, k1) if any(terms) else NoTerms(len(terms))

    def rank(self, query: str, k: int, by: WithinRanking = "fused") -> list[int]:
        """Places of at most `k` texts, best first; without an encoder by BM25 alone."""
        depth = len(self.texts)
        lexical = self._lexical.search(query, depth) if by != "dense" or self._encoder is None else []
        if self._encoder is None or by == "bm25":
            return lexical[:k]
        dense = [int(row) for row in np.argsort(-self.similarities(query), kind="stable")]
        if by == "dense":
            return dense[:k]
        return [one.id for one in fuse([("bm25", 1.0, lexical), ("dense", 1.0, dense)], limit=k)]

    def similarities(self, query: str) -> Vectors:
        """Cosines of every text to the query, `(len(texts),)`. Needs an encoder."""
        if self._encoder is None:
            raise ValueError("there is no encoder to compare by")
        found: Vectors = self.vectors @ self._encoder.encode([query])[0]
        return found

    def overlaps(self, query: str) -> Vectors:
        """BM25 scores of every text for the query, `(len(texts),)`."""
        return self._lexical.scores(query)

    @property
    def vectors(self) -> Vectors:
        """The texts' vectors, `(len(texts), dimension)`. Needs an encoder."""
        if self._vectors is None:
            if self._encoder is None:
                raise ValueError("there is no encoder to compare by")
            self._vectors = self._encoder.encode(self.texts)
        return self._vectors
