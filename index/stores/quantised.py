"""Search by signs first: one bit a dimension says which rows are worth comparing, their vectors in full say the rest.

Beside the exact store's matrix, which is read at few places, lie the signs of its numbers: a 32nd of it, small enough
to stay in memory. Nearly all of what exact search finds is found. Where a filter leaves few rows, all are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from index.encoders import Vectors
from index.errors import CollectionCorrupt
from index.stores.exact import ExactStore, OpenMatrix, best_places
from index.stores.protocol import Mask, Neighbours, Take

FILE = "vectors.signs.npy"
CANDIDATES = 32
"""Rows compared in full for each that is asked for. Of the best 100 among 27,000 vectors of real passages 32 find
.9997, 16 find .998, 8 find .990; among 400,000 made of these .996, .984 and .959."""
_LEAST = 3200
_STRETCH = 16_384
_MASKED = np.iinfo(np.uint16).max

Planes = npt.NDArray[np.uint64]
"""`(dimension / 64, rows)`: a plane lies together, so that all rows of it are counted at once."""


class QuantisedStore(ExactStore):
    """A `VectorStore`; nothing of it lies outside of the version's folder."""

    def write(self, folder: Path, ids: Sequence[str], dimension: int, take: Take) -> None:
        signs: list[Planes] = []

        def both(rows: Sequence[int]) -> Vectors:
            vectors = take(rows)
            signs.append(_planes(vectors))
            return vectors

        super().write(folder, ids, dimension, both)
        np.save(folder / FILE, np.concatenate(signs, axis=1))

    def open(self, folder: Path, ids: Sequence[str], dimension: int) -> OpenMatrix:
        matrix = np.asarray(super().open(folder, ids, dimension).matrix)
        try:
            signs: Planes = np.load(folder / FILE, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise CollectionCorrupt(f"{folder / FILE} cannot be read ({error}): index again") from error
        if signs.shape != (-(-dimension // 64), len(ids)):
            raise CollectionCorrupt(f"{folder / FILE} holds the signs of other vectors: index again")
        return _OpenQuantised(matrix, signs)


class _OpenQuantised(OpenMatrix):
    def __init__(self, matrix: Vectors, signs: Planes) -> None:
        super().__init__(matrix)
        self._signs = signs

    def search(self, vectors: Vectors, k: int, mask: Mask | None = None) -> list[Neighbours]:
        found = []
        for vector in vectors:
            rows = self._near(vector, max(_LEAST, CANDIDATES * k), mask)
            scores = self.matrix[rows] @ vector
            best = best_places(scores, k) if k > 0 and len(rows) else np.arange(0)
            found.append(Neighbours(rows[best].tolist(), scores[best].tolist()))
        return found

    def _near(self, vector: Vectors, count: int, mask: Mask | None) -> npt.NDArray[np.intp]:
        """At least `count` rows whose signs differ least, in order; all that the mask leaves where these are fewer."""
        asked = _planes(vector[None])
        distances = np.empty(self._signs.shape[1], dtype=np.uint16)
        for start in range(0, len(distances), _STRETCH):
            differing = np.bitwise_count(self._signs[:, start : start + _STRETCH] ^ asked)
            differing.sum(axis=0, dtype=np.uint16, out=distances[start : start + _STRETCH])
        if mask is not None:
            distances[~mask] = _MASKED
        within = np.searchsorted(np.bincount(distances).cumsum(), count)
        return np.flatnonzero(distances <= min(int(within), _MASKED - 1))


def _planes(vectors: Vectors) -> Planes:
    """The signs of `(n, dimension)` vectors, 64 to a word, a plane for each 64 dimensions."""
    packed = np.packbits(vectors > 0, axis=1)
    whole = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
    whole[:, : packed.shape[1]] = packed
    return np.ascontiguousarray(whole.view(np.uint64).T)
