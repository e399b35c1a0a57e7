"""Which documents a conversation is about, told from where its words lead.

People mostly go on asking about the page they are reading. Queries made of the conversation find passages of
that page, and if those near the top are of one document, all of that document's passages deserve a better
place. A ranking of documents says so: in it, every passage has its document's rank. Its weight falls with the
square of how scattered the found passages are, so that a conversation that wanders is left alone. The
measurements stand in `docs/retrieval.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from index.fusion import DEFAULT_K, fuse

TOP = 10
"""Passages from which it is told how scattered a conversation is."""

T = TypeVar("T", bound=Hashable)
D = TypeVar("D", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Subject(Generic[D]):
    """Documents and their ranks from 1, and the share of the best passages that the first one has."""

    ranks: dict[D, int]
    share: float

    @property
    def certainty(self) -> float:
        """From 0 to 1: by how much the ranking is to be believed."""
        return self.share**2


def subject(
    rankings: Sequence[tuple[str, float, Sequence[T]]], document_of: Callable[[T], D], k: int = DEFAULT_K
) -> Subject[D]:
    """The documents that fused `(label, weight, passages best first)` lead to, each by its best passage."""
    ranks: dict[D, int] = {}
    best: list[D] = []
    for fused in fuse(rankings, k):
        document = document_of(fused.id)
        ranks.setdefault(document, len(ranks) + 1)
        if len(best) < TOP:
            best.append(document)
    share = best.count(best[0]) / TOP if best else 0.0
    return Subject(ranks, share)
