"""An encoder that needs no model: texts that share words have similar vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from index.encoders import Vectors
from text.words import tokenize


@dataclass
class WordEncoder:
    """Each term points its own way, a text where its terms do; the same text always has the same vector.

    `encode` answers (n, dimension) float32, L2-normalised; `encoded` and `calls` say what it was asked.
    """

    name: str = "words"
    dimension: int = 64
    max_tokens: int = 256
    prompt: str = ""
    encoded: list[str] = field(default_factory=list)
    calls: int = 0

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.calls += 1
        self.encoded.extend(texts)
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            for term in tokenize(text):
                vectors[row] += _direction(term, self.dimension)
        vectors[~vectors.any(axis=1)] = 1.0
        normalised: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return normalised

    def count_tokens(self, text: str) -> int:
        return len(text.split())


@lru_cache(maxsize=100_000)
def _direction(term: str, dimension: int) -> Vectors:
    seed = int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest())
    return np.random.default_rng(seed).standard_normal(dimension).astype(np.float32)
