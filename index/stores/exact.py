"""Exact search over one memory-mapped matrix: every vector is compared, so the nearest are always found.

The matrix, `vectors.npy`, has the rows of the version. Opening it reads nothing, any number of processes share its
pages, and a reader keeps it after the file was deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from index.encoders import Vectors
from index.errors import CollectionCorrupt
from index.stores import Mask, Neighbours, Take

FILE = "vectors.npy"
_CHUNK = 4096
_STRETCH = 1024
# Below this share of rows it is faster to copy these together than to compare all.
_GATHERED = 0.2


class ExactStore:
    """A `VectorStore`; nothing of it lies outside of the version's folder."""

    def write(self, folder: Path, ids: Sequence[str], dimension: int, take: Take) -> None:
        # Plain writes, not a memory map: a full disk is then an OSError instead of a signal that kills.
        with (folder / FILE).open("wb") as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": (len(ids), dimension)}
            np.lib.format.write_array_header_1_0(file, header)
            for start in range(0, len(ids), _CHUNK):
                chunk = take(range(start, min(start + _CHUNK, len(ids))))
                file.write(np.ascontiguousarray(chunk, dtype="<f4").data)

    def open(self, folder: Path, ids: Sequence[str], dimension: int) -> OpenMatrix:
        path = folder / FILE
        try:
            matrix: Vectors = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise CollectionCorrupt(f"{path} cannot be read ({error}): index again") from error
        if matrix.shape != (len(ids), dimension):
            raise CollectionCorrupt(f"{path} holds {matrix.shape} and not {(len(ids), dimension)}: index again")
        return OpenMatrix(matrix)

    def delete(self, folder: Path) -> None:
        pass


class OpenMatrix:
    """An `OpenVectors` over a `(rows, dimension)` matrix."""

    def __init__(self, matrix: Vectors) -> None:
        self.matrix = matrix

    def search(self, vectors: Vectors, k: int, mask: Mask | None = None) -> list[Neighbours]:
        rows = np.arange(len(self.matrix)) if mask is None else np.flatnonzero(mask)
        if not len(rows) or k < 1:
            return [Neighbours([], []) for _ in vectors]
        if len(rows) < _GATHERED * len(self.matrix):
            scores = vectors @ self.matrix[rows].T
        else:
            scores = _cosines(self.matrix, vectors)[:, rows]
        neighbours = []
        for line in scores:
            best = best_places(line, k)
            neighbours.append(Neighbours(rows[best].tolist(), line[best].tolist()))
        return neighbours

    def take(self, rows: Sequence[int]) -> Vectors:
        return np.asarray(self.matrix[list(rows)])

    def close(self) -> None:
        pass


def _cosines(matrix: Vectors, vectors: Vectors) -> Vectors:
    """`(len(vectors), rows)`, some rows at a time: what the first vector reads, the others find in the cache.

    Products of this size BLAS leaves to one thread, too. Its threads wait for each other in a loop, which beside an
    engine that holds all cores made a search of 15,000 passages ten times slower.
    """
    scores = np.empty((len(vectors), len(matrix)), dtype=np.float32)
    for start in range(0, len(matrix), _STRETCH):
        stretch = matrix[start : start + _STRETCH]
        for line, vector in zip(scores, vectors, strict=True):
            line[start : start + len(stretch)] = stretch @ vector
    return scores


def best_places(scores: npt.NDArray[np.float32], k: int) -> npt.NDArray[np.intp]:
    """Places of the `k` highest scores, highest first, ties by place."""
    if k < len(scores):
        threshold = np.partition(scores, len(scores) - k)[len(scores) - k]
        candidates = np.flatnonzero(scores >= threshold)
    else:
        candidates = np.arange(len(scores))
    return candidates[np.argsort(-scores[candidates], kind="stable")[:k]]


QUANTISED_FILE = "vectors.signs.npy"
CANDIDATES = 32
"""Rows compared in full for each that is asked for. Of the best 100 among 27,000 vectors of real passages 32 find
.9997, 16 find .998, 8 find .990; among 400,000 made of these .996, .984 and .959."""
_LEAST = 3200
_STRETCH_QUANTISED = 16_384
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
        np.save(folder / QUANTISED_FILE, np.concatenate(signs, axis=1))

    def open(self, folder: Path, ids: Sequence[str], dimension: int) -> OpenMatrix:
        matrix = np.asarray(super().open(folder, ids, dimension).matrix)
        try:
            signs: Planes = np.load(folder / QUANTISED_FILE, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise CollectionCorrupt(f"{folder / QUANTISED_FILE} cannot be read ({error}): index again") from error
        if signs.shape != (-(-dimension // 64), len(ids)):
            raise CollectionCorrupt(f"{folder / QUANTISED_FILE} holds the signs of other vectors: index again")
        return _OpenQuantised(matrix, signs)


class _OpenQuantised(OpenMatrix):
    def __init__(self, matrix: Vectors, signs: Planes) -> None:
        super().__init__(matrix)
        self._signs = signs

    def search(self, vectors: Vectors, k: int, mask: Mask | None = None) -> list[Neighbours]:
        neighbours = []
        for vector in vectors:
            rows = self._near(vector, max(_LEAST, CANDIDATES * k), mask)
            scores = self.matrix[rows] @ vector
            best = best_places(scores, k) if k > 0 and len(rows) else np.arange(0)
            neighbours.append(Neighbours(rows[best].tolist(), scores[best].tolist()))
        return neighbours

    def _near(self, vector: Vectors, count: int, mask: Mask | None) -> npt.NDArray[np.intp]:
        """At least `count` rows whose signs differ least, in order; all that the mask leaves where these are fewer."""
        planes = _planes(vector[None])
        distances = np.empty(self._signs.shape[1], dtype=np.uint16)
        for start in range(0, len(distances), _STRETCH_QUANTISED):
            differing = np.bitwise_count(self._signs[:, start : start + _STRETCH_QUANTISED] ^ planes)
            differing.sum(axis=0, dtype=np.uint16, out=distances[start : start + _STRETCH_QUANTISED])
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


BUILT_IN = {"exact": ExactStore, "quantised": QuantisedStore}
