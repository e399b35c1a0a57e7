"""Near-duplicates: propositions that say the same are one, with all their sources.

Two are the same if the encoder finds them alike, one has most of the other's words and no further ones, and their
numbers, their names and whether they deny are equal: "Plan A costs 5" and "Plan B costs 5" stay two.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import regex

from index.encoders import Encoder
from synth.propositions.store import Proposition
from text.words import negations, numbers, stems

SIMILAR = 0.92
SHARED_WORDS = 0.75
_BLOCK = 1024
_CAPITALS = regex.compile(r"(?<!^)\b\p{Lu}[\p{L}\p{N}]*|`[^`]+`|\b[A-Z0-9]\b")


def merged(propositions: Sequence[Proposition], encoder: Encoder) -> list[Proposition]:
    """The propositions in order, each later near-duplicate given up for the first, which takes its sources."""
    if not propositions:
        return []
    vectors = encoder.encode([proposition.text for proposition in propositions])
    marks = [_marks(proposition.text) for proposition in propositions]
    contents = [frozenset(stems(proposition.text)) for proposition in propositions]
    stands_for = list(range(len(propositions)))
    for start in range(0, len(propositions), _BLOCK):
        similar = vectors[start : start + _BLOCK] @ vectors[: start + _BLOCK].T
        for row, column in zip(*np.nonzero(similar >= SIMILAR), strict=True):
            later, earlier = start + int(row), int(column)
            if earlier >= later or stands_for[later] != later or stands_for[earlier] != earlier:
                continue
            if marks[later] == marks[earlier] and shared(contents[later], contents[earlier]) >= SHARED_WORDS:
                stands_for[later] = earlier
    kept: dict[int, Proposition] = {}
    for position, proposition in enumerate(propositions):
        first = stands_for[position]
        if first == position:
            kept[position] = proposition
        else:
            sources = dict.fromkeys((*kept[first].sources, *proposition.sources))
            kept[first] = kept[first].model_copy(update={"sources": tuple(sources)})
    return list(kept.values())


def _marks(text: str) -> tuple[frozenset[str], frozenset[str], bool]:
    names = frozenset(name.casefold() for name in _CAPITALS.findall(text))
    return frozenset(numbers(text)), names, negations(text) > 0


def shared(one: frozenset[str], other: frozenset[str]) -> float:
    """Share of words two sentences have in common; 0 where each has one that the other lacks: another subject."""
    if not (one <= other or other <= one):
        return 0.0
    return min(len(one), len(other)) / max(len(one), len(other)) if one and other else 0.0
