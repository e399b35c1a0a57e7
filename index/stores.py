"""Vector stores: where the vectors of a collection's versions lie, and how the nearest are found.

A store holds the vectors of versions. A version is written once, then only read, by any number of processes, and
deleted when no reader can still need it; so a store needs no transactions of its own. It knows rows, ids and vectors;
texts, metadata and filters are the collection's, who hands a filter over as a mask of rows. Others may be declared as
entry points of `anaphora.vector_stores`.

The built-in stores search one memory-mapped matrix, `vectors.npy`, with the rows of the version. Opening it reads
nothing, any number of processes share its pages, and a reader keeps it after the file was deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from index.encoders import Vectors
from index.errors import CollectionCorrupt, StorageError, StoreUnavailable
from text.modules import PluginError, load_plugin

if TYPE_CHECKING:
    from index.ranking import LexicalIndex


@dataclass(frozen=True, slots=True)
class EngineFailures:
    """Contexts in which an engine is read and written.

    `where` is where a version's vectors lie, `url` the address of the engine's server, if any. `raised` gives what the
    engine and the way to it raise; `answered` tells an error that a server told from one on the way to it; `uncopied`
    are raised where a version's files could not be copied to be opened.
    """

    engine: str
    where: str
    url: str
    raised: Callable[[], tuple[type[Exception], ...]]
    answered: Callable[[Exception], bool]
    uncopied: tuple[type[Exception], ...] = ()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raises CollectionCorrupt, or StorageError where a server does not answer."""
        try:
            yield
        except self.uncopied as error:
            raise StorageError(
                f"the vectors in {self.where} could not be copied to be opened ({error}): look for room on the disk"
            ) from error
        except self.raised() as error:
            if self.url and not self.answered(error):
                raise StorageError(
                    f"the {self.engine} server at {self.url} does not answer ({error}): "
                    "start it, or correct `index.store_url`"
                ) from error
            raise CollectionCorrupt(f"the vectors in {self.where} cannot be read ({error}): index again") from error

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Raises StorageError."""
        try:
            yield
        except self.raised() as error:
            advice = f"see that the {self.engine} server runs" if self.url else "look for room on the disk"
            raise StorageError(
                f"writing vectors to {self.where} failed ({error}); the last good version still serves; "
                f"{advice} and index again"
            ) from error


Mask: TypeAlias = npt.NDArray[np.bool_]
Take: TypeAlias = Callable[[Sequence[int]], Vectors]
"""Vectors of the rows asked for, `(len(rows), dimension)` float32, L2-normalised, in their order."""
Weigh: TypeAlias = Callable[[Sequence[int]], list[dict[str, float]]]
"""The BM25 weights of the rows asked for, by term: what a question's term adds to a row's score."""


class Neighbours(NamedTuple):
    """The nearest rows to one vector, nearest first, ties by row, and their cosines to it."""

    rows: list[int]
    scores: list[float]


class OpenVectors(Protocol):
    """The vectors of one version, open for reading; safe to use from several threads at once.

    Both raise CollectionCorrupt where the vectors cannot be read, or StorageError where a server does not answer.
    """

    def search(self, vectors: Vectors, k: int, mask: Mask | None = None) -> list[Neighbours]:
        """At most `k` nearest rows to each of `vectors`; `mask` is `(rows,)`, False where a row must not be found.

        May be approximate, but finds `k` rows wherever the mask leaves that many.
        """

    def take(self, rows: Sequence[int]) -> Vectors:
        """The vectors of these rows, `(len(rows), dimension)` float32, in their order."""

    def close(self) -> None:
        """Let go of files and connections; nobody reads any more."""


class VectorStore(Protocol):
    """Writes, opens and deletes the vectors of versions, of which many may be open at once.

    A version is named by its folder: `<collection>/versions/<id>`. The store's files on disk have names that begin with
    `vectors` and never change once they are written: they carry checksums. A store whose engine writes into what it
    reads opens a copy. One that keeps vectors elsewhere makes its names from that path.
    """

    def write(self, folder: Path, ids: Sequence[str], dimension: int, take: Take) -> None:
        """Write a new version, row `n` with the id `ids[n]`; there is at least one row.

        Raises StorageError, or OSError where its own files cannot be written; what was written by then is deleted by
        the caller.
        """

    def open(self, folder: Path, ids: Sequence[str], dimension: int) -> OpenVectors:
        """Open a version as it was written.

        The reader goes on answering after newer versions were written. Once its own was deleted it may raise instead:
        the collection then moves on. Raises CollectionCorrupt where the vectors are missing, damaged, or not as many
        as `ids` and as long as `dimension`, and StorageError where a server does not answer.
        """

    def delete(self, folder: Path) -> None:
        """Remove a version's vectors that lie outside of its folder; the folder itself is removed by the caller.

        Never raises: where there are none, or the server is away, an orphan harms nobody.
        """


@runtime_checkable
class TermStore(Protocol):
    """A `VectorStore` that ranks by words as well.

    It opens `OpenTerms`; the version's folder holds no BM25 index.
    """

    def write_terms(self, folder: Path, rows: int, weigh: Weigh) -> None:
        """Write the weights of a new version's words, of so many rows. Raises as `VectorStore.write` does."""


@runtime_checkable
class OpenTerms(Protocol):
    """`OpenVectors` of a `TermStore`."""

    def terms(self, languages: Sequence[str]) -> LexicalIndex:
        """The words of the version, stemmed in these languages, ready to be searched.

        Raises as `OpenVectors.search` does.
        """


GROUP = "anaphora.vector_stores"
"""Entry points of this group are called with `StoreSpec.url` and return a `VectorStore`."""


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """Which vector store, and where.

    `name` is `exact`, `quantised`, `chroma`, `milvus`, or that of an entry point; `url` its server's address, if any.
    Milvus without one lies in the version's own folder.
    """

    name: str = "exact"
    url: str = ""

    def __str__(self) -> str:
        return f"{self.name} at {self.url}" if self.url else self.name


EXACT = StoreSpec()


def load_store(spec: StoreSpec) -> VectorStore:
    """The store of a spec. Raises StoreUnavailable where there is none of that name or it cannot be loaded."""
    if spec.name in BUILT_IN:
        return BUILT_IN[spec.name]()
    try:
        store: VectorStore = load_plugin(GROUP, spec.name, kind="vector store", builtin=BUILT_IN)(spec.url)
    except PluginError as error:
        raise StoreUnavailable(f"{error} The setting is `index.store`.") from error
    return store


def delete_vectors(spec: StoreSpec, folder: Path) -> None:
    """`VectorStore.delete`, also for a store that is not installed any more: it then does nothing."""
    with suppress(StoreUnavailable):
        load_store(spec).delete(folder)


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
        return OpenMatrix(_mapped(folder / FILE, (len(ids), dimension)))

    def delete(self, folder: Path) -> None:
        pass


def _mapped(path: Path, shape: tuple[int, int]) -> Any:
    """Map an array of this shape into memory. Raises CollectionCorrupt."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CollectionCorrupt(f"{path} cannot be read ({error}): index again") from error
    if array.shape != shape:
        raise CollectionCorrupt(f"{path} holds {array.shape} and not {shape}: index again")
    return array


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
        return _OpenQuantised(matrix, _mapped(folder / QUANTISED_FILE, (-(-dimension // 64), len(ids))))


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
