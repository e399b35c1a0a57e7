"""Reciprocal rank fusion: many rankings of the same things become one.

Cormack, Clarke and Büttcher (2009), with a weight for each ranking: an item's score is the sum over
rankings of `weight / (k + rank)`, ranks counted from 1. It sees ids only, neither texts nor scores.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
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
    rankings: Sequence[tuple[str, float, Sequence[T]]], k: int = DEFAULT_K, limit: int | None = None
) -> list[Fused[T]]:
    """Fuse `(label, weight, ids best first)` into one list, best first, at most `limit` long.

    Rankings of weight 0 or less are left out. Equal scores keep the order in which the items first
    appear, ranking after ranking, so the result depends on nothing but the arguments. An id that a
    ranking holds twice counts at its better rank. Labels should differ.
    """
    scores: dict[T, float] = {}
    ranks: dict[T, dict[str, int]] = {}
    for label, weight, ids in rankings:
        if weight <= 0:
            continue
        for rank, item in enumerate(ids, start=1):
            found = ranks.setdefault(item, {})
            if label in found:
                continue
            found[label] = rank
            scores[item] = scores.get(item, 0.0) + weight / (k + rank)
    order = sorted(scores, key=scores.__getitem__, reverse=True)[:limit]
    return [Fused(item, scores[item], ranks[item]) for item in order]
