"""Vector stores: where the vectors of a collection's versions lie, and how the nearest are found.

A store holds the vectors of versions. A version is written once, then only read, by any number of processes, and
deleted when no reader can still need it; so a store needs no transactions of its own. It knows rows, ids and vectors;
texts, metadata and filters are the collection's, who hands a filter over as a mask of rows. `exact` holds those that
come with the index; others may be declared as entry points of `anaphora.vector_stores`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from index.encoders import Vectors
from index.errors import CollectionCorrupt, StorageError, StoreUnavailable
from text.modules import PluginError, load_plugin

if TYPE_CHECKING:
    from index.lexical import LexicalIndex


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
    from index.stores.exact import BUILT_IN

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
