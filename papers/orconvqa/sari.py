"""SARI-add: the words a rewrite adds, compared with those that a person added (Newman et al. 2023, their public code).

Words are types: lower case, punctuation and a/an/the deleted, NLTK's tokens. A = prediction − snippet, W = gold −
snippet; hits, surplus and misses are averaged over the rows and give one F1 for all of them.

Replacing `we` and appending the title already beat the best published system by that figure, so the one to lead with is
*content-SARI*: what the snippet's own surface rewrite says, and the stand-ins for authors and references, count as
known and add nothing.
"""

from __future__ import annotations

import re
import string
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from evaluation.metrics import ROUNDS, Estimate
from papers.measures import estimate_of
from text.modules import need_extra

STAND_INS = frozenset({"author", "authors", "their", "ref0", "ref0s"})
"""What stands for authors and references in the gold texts."""

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


@dataclass(frozen=True, slots=True)
class Additions:
    """How many added words of one row are the gold's, are not, and were missed."""

    hits: int
    surplus: int
    misses: int


@lru_cache(maxsize=8192)
def types(text: str) -> frozenset[str]:
    """The types of a text. Raises MissingExtra."""
    need_extra("papers", "SARI", "nltk")
    from nltk.tokenize import NLTKWordTokenizer

    plain = _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION))
    return frozenset(NLTKWordTokenizer().tokenize(plain))


def additions(snippet: str, prediction: str, gold: str, known: str | None = None) -> Additions:
    """What a prediction adds against what the gold adds; with `known` (the surface rewrite) as content-SARI has it."""
    there = types(snippet)
    if known is not None:
        there |= types(known) | STAND_INS
    added, wanted = types(prediction) - there, types(gold) - there
    return Additions(len(added & wanted), len(added - wanted), len(wanted - added))


def f1(rows: Iterable[Additions]) -> float:
    """F1 from the counts of all rows together; 0 where nothing right was added."""
    found = list(rows)
    hits = sum(row.hits for row in found)
    wrong = sum(row.surplus + row.misses for row in found)
    return 2 * hits / (2 * hits + wrong) if hits else 0.0


def sari(rows: Sequence[Additions], clusters: Sequence[Hashable]) -> Estimate:
    """F1 with its 95 % interval, by resampling clusters (papers)."""
    return estimate_of(lambda places: f1(rows[place] for place in places), clusters, resamples=1000)


def paired(
    before: Sequence[Additions], after: Sequence[Additions], clusters: Sequence[Hashable], rounds: int = ROUNDS
) -> float:
    """Two-sided p of the difference of two F1s: how often swapping the two in random clusters gives one as large."""
    names = {cluster: place for place, cluster in enumerate(dict.fromkeys(clusters))}
    sums = np.zeros((2, len(names), 3))
    for side, rows in enumerate((before, after)):
        for row, cluster in zip(rows, clusters, strict=True):
            sums[side, names[cluster]] += (row.hits, row.surplus, row.misses)
    swap = np.random.default_rng(7).integers(0, 2, (rounds, len(names))).astype(np.float64)
    difference = sums[1] - sums[0]
    first = sums[0].sum(axis=0) + swap @ difference
    second = sums[1].sum(axis=0) - swap @ difference
    observed = abs(_f1(sums[1].sum(axis=0)[None]) - _f1(sums[0].sum(axis=0)[None]))[0] - 1e-12
    extreme = int((np.abs(_f1(second) - _f1(first)) >= observed).sum())
    return (extreme + 1) / (rounds + 1)


def _f1(counts: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    both = 2 * counts[:, 0]
    return both / np.maximum(both + counts[:, 1] + counts[:, 2], 1)
