"""Reciprocal rank fusion: many rankings of the same things become one; and what decides the rankings' weights.

Cormack, Clarke and Büttcher (2009), with a weight for each ranking: an item's score is the sum over
rankings of `weight / (k + rank)`, ranks counted from 1. It sees ids only, neither texts nor scores.

The *confidence* of a query follows from its nearest passages. "And by fax?" is about equally near to a
great many; a question that stands alone is much nearer to a few. That drop of similarity, from the nearest passage to
the tenth, predicts how well a query retrieves without looking at any relevance judgement.

The *document prior*, which documents a conversation is about, follows from where its words lead. People mostly go on
asking about the page they are reading. If the passages near the top are of one document, all of its passages deserve a
better place: in a ranking of documents, every passage has its document's rank. Its weight falls with the square of how
scattered the found passages are, so that a conversation that wanders is left alone.

Both cost nothing compared with the search; measurements are in `docs/lab/retrieval.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

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


@dataclass(frozen=True, slots=True)
class DocumentPrior(Generic[D]):
    """Documents and their ranks from 1, and the share of the best passages that the first one has."""

    ranks: dict[D, int]
    share: float

    @property
    def certainty(self) -> float:
        """From 0 to 1: by how much the ranking is to be believed."""
        return self.share**2


def document_prior(
    rankings: Sequence[tuple[str, float, Sequence[T]]], document_of: Callable[[T], D], k: int = DEFAULT_K
) -> DocumentPrior[D]:
    """The documents that fused `(label, weight, passages best first)` lead to, each by its best passage."""
    ranks: dict[D, int] = {}
    best: list[D] = []
    for fused in fuse(rankings, k):
        document = document_of(fused.id)
        ranks.setdefault(document, len(ranks) + 1)
        if len(best) < PRIOR_TOP:
            best.append(document)
    share = best.count(best[0]) / PRIOR_TOP if best else 0.0
    return DocumentPrior(ranks, share)
