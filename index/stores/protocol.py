"""What a vector store is.

A store holds the vectors of versions. A version is written once, then only read, by any number of processes, and
deleted when no reader can still need it; so a store needs no transactions of its own. It knows rows, ids and vectors;
texts, metadata and filters are the collection's, who hands a filter over as a mask of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from index.encoders import Vectors

if TYPE_CHECKING:
    from index.lexical import LexicalIndex

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

    A version is named by its folder: `<collection>/versions/<id>`. What a store keeps on disk goes into it, under
    names that begin with `vectors`, and never changes once it is written: it carries checksums. A store whose engine
    writes into what it reads opens a copy. One that keeps vectors elsewhere makes its names from that path.
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
    """A `VectorStore` that ranks by words as well, for other programs too.

    What it opens is `OpenTerms`; no BM25 index lies in the version's folder.
    """

    def write_terms(self, folder: Path, rows: int, weigh: Weigh) -> None:
        """Write the weights of a new version's words, of so many rows. Raises as `VectorStore.write` does."""

    def switch(self, folder: Path) -> None:
        """This version serves from now on, and is to be found under the collection's name. Never raises."""


@runtime_checkable
class OpenTerms(Protocol):
    """`OpenVectors` of a `TermStore`."""

    def terms(self, languages: Sequence[str]) -> LexicalIndex:
        """The words of the version, stemmed in these languages, ready to be searched.

        Raises as `OpenVectors.search` does.
        """
