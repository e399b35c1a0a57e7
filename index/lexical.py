"""BM25 over the passages of one version of a collection, memory-mapped from disk.

Rows number passages from 0; ids and texts are the collection's affair, words are `text.words`'s.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from index.errors import CollectionCorrupt
from index.stores import Mask, Weigh, best_places
from text.languages import ENGLISH
from text.words import tokenize

Scores: TypeAlias = npt.NDArray[np.float32]

K1 = 1.5
B = 0.75


class LexicalIndex(Protocol):
    """A built BM25 index; safe to search from several threads at once."""

    def search(self, text: str, k: int, mask: Mask | None = None) -> list[int]:
        """Rows of at most `k` passages that share a term with the text, best first, ties by row.

        `mask` is `(rows,)` and False where a passage must not be found.
        """


class Bm25s:
    """BM25 by bm25s: scores are computed when the index is built, and summed at search.

    `languages` are those whose stems its passages were given as. Passages without a single term, which bm25s cannot
    hold, have no `engine`, and none of the `rows` is found.
    """

    def __init__(self, engine: Any = None, languages: Sequence[str] = (ENGLISH,), rows: int = 0) -> None:
        self._engine, self._languages = engine, languages
        self._rows = int(engine.scores["num_docs"]) if engine else rows

    @classmethod
    def build(cls, corpus: Iterable[Sequence[str]], k1: float = K1) -> Bm25s:
        """Index passages given as their terms, row by row."""
        import bm25s

        # It asks for its own remarks to be logged, however they are.
        logging.getLogger("bm25s").setLevel(logging.WARNING)
        vocabulary: dict[str, int] = {}
        ids = [[vocabulary.setdefault(term, len(vocabulary)) for term in terms] for terms in corpus]
        if not vocabulary:
            return cls(rows=len(ids))
        engine = bm25s.BM25(k1=k1, b=B, method="lucene")
        engine.index((ids, vocabulary), create_empty_token=False, show_progress=False)
        return cls(engine)

    @classmethod
    def load(cls, folder: Path, languages: Sequence[str] = (ENGLISH,)) -> Bm25s:
        """Map what `save` wrote into memory; raises CollectionCorrupt."""
        import bm25s

        try:
            return cls(bm25s.BM25.load(str(folder), mmap=True, show_progress=False), languages)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CollectionCorrupt(f"the BM25 index in {folder} cannot be read ({error}): index again") from error

    def search(self, text: str, k: int, mask: Mask | None = None) -> list[int]:
        terms = self._numbers(text)
        if not terms or k < 1:
            return []
        scores = self._engine.get_scores_from_ids(terms, weight_mask=mask)
        # An unknown word scores 0 everywhere.
        rows = np.flatnonzero(scores > 0)
        best: list[int] = rows[best_places(scores[rows], k)].tolist()
        return best

    def scores(self, text: str) -> Scores:
        """`(rows,)`: every row's score, 0 for one that shares no term with the text."""
        terms = self._numbers(text)
        scores: Scores = self._engine.get_scores_from_ids(terms) if terms else np.zeros(self._rows, dtype=np.float32)
        return scores

    def _numbers(self, text: str) -> list[int]:
        return list(self._engine.get_tokens_ids(tokenize(text, self._languages))) if self._engine else []

    def weights(self) -> Weigh:
        """Return each term's contribution to a row's score, for a store that ranks by words itself."""
        held = self._engine.scores
        terms = np.repeat(np.arange(len(held["indptr"]) - 1), np.diff(held["indptr"]))
        order = np.argsort(held["indices"], kind="stable")
        ends = np.searchsorted(held["indices"], np.arange(held["num_docs"] + 1), sorter=order)
        spelled = {number: term for term, number in self._engine.vocab_dict.items()}

        def weigh(rows: Sequence[int]) -> list[dict[str, float]]:
            of = (order[ends[row] : ends[row + 1]] for row in rows)
            return [{spelled[terms[index]]: float(held["data"][index]) for index in places} for places in of]

        return weigh

    def save(self, folder: Path) -> None:
        """Write the index into a new folder."""
        self._engine.save(str(folder), show_progress=False)
