"""Reciprocal rank fusion: many rankings of the same things become one.

Cormack, Clarke and Büttcher (2009), with a weight for each ranking: an item's score is the sum over
rankings of `weight / (k + rank)`, ranks counted from 1. It sees ids only, neither texts nor scores.
"""

from __future__ import annotations

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
        known = {item: place for item in scores if (place := rank_of(item)) is not None}
        for item, place in known.items():
            scores[item] += weight / (k + place)
        places.append((label, known))
    order = sorted(scores, key=scores.__getitem__, reverse=True)[:limit]
    return [
        Fused(item, scores[item], {label: ranks[item] for label, ranks in places if item in ranks}) for item in order
    ]
