"""A search within the texts of one document, by words, by meaning, or by both."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import numpy as np

from index.encoders import TextEncoder, Vectors
from index.ranking import Bm25s, fuse
from text.words import tokenize

WithinRanking = Literal["bm25", "dense", "fused"]


class Within:
    """The texts of one document, to be searched. Blocks; encoding takes some milliseconds a text."""

    def __init__(self, texts: Sequence[str], encoder: TextEncoder | None = None) -> None:
        self.texts = list(texts)
        self._encoder = encoder
        self._lexical = Bm25s.build(map(tokenize, self.texts))

    def rank(self, query: str, k: int, by: WithinRanking = "fused") -> list[int]:
        """Places of at most `k` texts, best first; without an encoder by BM25 alone."""
        depth = len(self.texts)
        lexical = self._lexical.search(query, depth) if by != "dense" or self._encoder is None else []
        if self._encoder is None or by == "bm25":
            return lexical[:k]
        dense = [int(row) for row in np.argsort(-(self._vectors @ self._encoder.encode([query])[0]), kind="stable")]
        if by == "dense":
            return dense[:k]
        return [fused.id for fused in fuse([("bm25", 1.0, lexical), ("dense", 1.0, dense)], limit=k)]

    @cached_property
    def _vectors(self) -> Vectors:
        assert self._encoder is not None
        return self._encoder.encode(self.texts)
