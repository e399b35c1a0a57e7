"""Rankings: BM25 over the passages of a collection, and reciprocal rank fusion, by which many rankings become one.

BM25 lies memory-mapped on disk, for one version of a collection. Rows number passages from 0; ids and texts are the
collection's affair, words are `text.words`'s.

Fusion (Cormack, Clarke and Büttcher 2009) gives each ranking a weight: an item's score is the sum over rankings of
`weight / (k + rank)`, ranks counted from 1. It sees ids only, neither texts nor scores.

The *confidence* of a query is the drop of similarity from its nearest passage to the tenth: "And by fax?" is about
equally near to a great many, a question that stands alone much nearer to a few.

The *document prior*, which documents a conversation is about, is a ranking of documents by where its words lead: every
passage has its document's rank. Its weight falls with the square of how scattered the found passages are.
People leave a page without saying so: the prior may not fill the list (`interleave`), and does not count for a
question that finds another document by itself (`stands_elsewhere`).

Measurements are in `docs/lab/retrieval.md`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from index.errors import CollectionCorrupt
from index.stores import Mask, Weigh, best_places
from text.languages import ENGLISH
from text.words import tokenize

T = TypeVar("T", bound=Hashable)

DEFAULT_K = 60


@dataclass(frozen=True, slots=True)
class Fused(Generic[T]):
    """An item, its fused score, and its rank in each ranking that holds it, by the ranking's label."""

    id: T
    score: float
    ranks: dict[str, int]


def fuse(
    rankings: Sequence[tuple[str, float, Sequence[T]]],
    k: int = DEFAULT_K,
    limit: int | None = None,
    ranked: tuple[str, float, Callable[[T], int | None]] | None = None,
) -> list[Fused[T]]:
    """Fuse `(label, weight, ids best first)` into one list, best first, at most `limit` long.

    `ranked` is one more ranking that brings no ids of its own: a label, a weight, and the rank of any id,
    which several may share, or None.

    Rankings of weight 0 or less are left out. Equal scores keep the order in which the items first
    appear, ranking after ranking, so the result depends on nothing but the arguments. An id that a
    ranking holds twice counts at its better rank. Labels should differ.
    """
    scores: dict[T, float] = {}
    places: list[tuple[str, dict[T, int]]] = []
    for label, weight, ids in rankings:
        if weight <= 0:
            continue
        ranks: dict[T, int] = {}
        for rank, item in enumerate(ids, start=1):
            if item not in ranks:
                ranks[item] = rank
                scores[item] = scores.get(item, 0.0) + weight / (k + rank)
        places.append((label, ranks))
    if ranked is not None and ranked[1] > 0:
        label, weight, rank_of = ranked
        standings = {item: place for item in scores if (place := rank_of(item)) is not None}
        for item, place in standings.items():
            scores[item] += weight / (k + place)
        places.append((label, standings))
    order = sorted(scores, key=scores.__getitem__, reverse=True)[:limit]
    return [
        Fused(item, scores[item], {label: ranks[item] for label, ranks in places if item in ranks}) for item in order
    ]


CONFIDENCE_RANK = 10
TYPICAL_DROP = 0.10
"""The drop at which a weight stays as it is: about the mean over follow-ups and first questions alike."""

_LARGEST = 2.0


def query_confidence(similarities: Sequence[float], strength: float) -> float:
    """Return the factor for a query's weights, between e^-2 and e^2.

    `similarities` are cosines to the nearest passages, best first; with fewer than ten nothing is
    known, and the factor is 1. `strength` is the exponent per unit of similarity, 0 for none.
    """
    if strength <= 0 or len(similarities) < CONFIDENCE_RANK:
        return 1.0
    drop = similarities[0] - similarities[CONFIDENCE_RANK - 1]
    return math.exp(max(-_LARGEST, min(_LARGEST, strength * (drop - TYPICAL_DROP))))


PRIOR_TOP = 10
"""Passages from which it is told how scattered a conversation is."""

D = TypeVar("D", bound=Hashable)


def document_prior(
    rankings: Sequence[tuple[str, float, Sequence[T]]], document_of: Callable[[T], D], k: int = DEFAULT_K
) -> tuple[dict[D, int], float]:
    """The ranks from 1 of the documents that fused `(label, weight, passages best first)` lead to, each by its best
    passage, and by how much they are to be believed, from 0 to 1: the square of the first one's share of the best."""
    ranks: dict[D, int] = {}
    best: list[D] = []
    for fused in fuse(rankings, k):
        document = document_of(fused.id)
        ranks.setdefault(document, len(ranks) + 1)
        if len(best) < PRIOR_TOP:
            best.append(document)
    share = best.count(best[0]) / PRIOR_TOP if best else 0.0
    return ranks, share**2


def stands_elsewhere(rankings: Sequence[Sequence[T]], spoken: D | None, document_of: Callable[[T], D]) -> bool:
    """Return whether a question finds another document by itself than the one that is `spoken` of.

    It does where its rankings by words and by meaning begin with the same document, and none of the ten best passages
    of both is of the other.
    """
    if len(rankings) < 2 or not all(rankings):
        return False
    best = fuse([("", 1.0, ranking) for ranking in rankings], limit=PRIOR_TOP)
    first = {document_of(ranking[0]) for ranking in rankings}
    return len(first) == 1 and all(document_of(fused.id) != spoken for fused in best)


PLAIN_PLACES = (3, 6, 9)
"""Places by which the first passages of the plain list stand in the favoured one."""


def interleave(favoured: Sequence[Fused[T]], plain: Sequence[Fused[T]]) -> list[Fused[T]]:
    """Merge the best of the list without favour into the list in which some documents are favoured.

    A document that a conversation is about may have passages enough to fill the list. Each of the first three of the
    plain list therefore stands at the place of `PLAIN_PLACES` or before it, with the score of its neighbour.
    """
    merged = list(favoured)
    for place, item in zip(PLAIN_PLACES, plain, strict=False):
        found = next((number for number, other in enumerate(merged) if other.id == item.id), None)
        if found is not None and found < place:
            continue
        moved = item if found is None else merged.pop(found)
        before = merged[min(place - 2, len(merged) - 1)].score if merged else item.score
        merged.insert(place - 1, replace(moved, score=before))
    return merged


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
