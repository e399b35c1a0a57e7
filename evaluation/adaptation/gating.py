"""The gate's threshold, chosen by what it does to retrieval.

Every question is searched twice, rewritten and left alone; after that each threshold costs nothing to try.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evaluation.adaptation.questions import HeldOutQuestion, ranking
from evaluation.metrics.ranking import per_question
from rewriter.protocol import Rewrite
from server.turn.steps import Stopwatch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rewriter.protocol import Rewriter
    from server.turn.search import TurnSearch

GRID = tuple(round(0.05 * n, 2) for n in range(1, 20))
WORTH = 0.002
"""A threshold must gain so much MAP over the run's own to be taken instead of it."""


@dataclass(frozen=True, slots=True)
class ThresholdPoint:
    """What a threshold comes to: MAP, and the share of questions that are rewritten.

    `error` is the standard error of its MAP less that of the run's own threshold, over conversations.
    """

    threshold: float
    map: float
    rewritten: float
    error: float = 0.0


def curve(
    search: TurnSearch,
    always: Rewriter,
    collection: str,
    asked: Sequence[HeldOutQuestion],
    own: float,
    counted: Callable[[], None] = lambda: None,
) -> list[ThresholdPoint]:
    """MAP over thresholds, `own` among them, which is the run's.

    `always` is the rewriter with its gate open, so that each question has a rewrite to try.
    """
    chances, rewritten, kept = list[float](), list[float](), list[float]()
    for one in asked:
        question = one.text
        made = always.rewrite(one.conversation, question)
        p = chance(made)
        left = Rewrite(question, "keep", confidence=1 - p, needs_history=p)
        chances.append(p)
        found = [_precision(search, collection, one, rewrite) for rewrite in (made, left)]
        rewritten.append(found[0])
        kept.append(found[1])
        counted()

    def precisions(threshold: float) -> NDArray[np.float64]:
        return np.where(np.array(chances) >= threshold, rewritten, kept)

    dialogs = [one.dialog for one in asked]
    return [
        ThresholdPoint(
            t,
            float(precisions(t).mean()),
            float(np.mean(np.array(chances) >= t)),
            standard_error(precisions(t) - precisions(own), dialogs),
        )
        for t in sorted({*GRID, own})
    ]


def standard_error(differences: NDArray[np.float64], dialogs: Sequence[str]) -> float:
    """Of the mean of differences `(n,)`, whose conversations are independent and whose questions are not."""
    sums = dict.fromkeys(dialogs, 0.0)
    for difference, dialog in zip(differences, dialogs, strict=True):
        sums[dialog] += float(difference)
    count = len(sums)
    if count < 2:
        return math.inf
    return float(np.std(list(sums.values()), ddof=1) * math.sqrt(count) / len(differences))


def best(points: Sequence[ThresholdPoint], own: float) -> ThresholdPoint:
    """The threshold of the highest MAP, the higher one of equals.

    The run's own where that gains less than a standard error: curves over a hundred questions are flat, and their
    highest point stands anywhere.
    """
    standing = next(point for point in points if point.threshold == own)
    worthy = [point for point in points if point.map - standing.map >= max(WORTH, point.error)]
    return max(worthy, key=lambda point: (point.map, point.threshold), default=standing)


def chance(rewrite: Rewrite) -> float:
    """The calibrated probability that the question needs its conversation, as far as the rewriter has one."""
    if rewrite.needs_history is not None:
        return rewrite.needs_history
    if rewrite.confidence is None:
        return 1.0 if rewrite.decision in ("rewrite", "expand") else 0.0
    return 1 - rewrite.confidence if rewrite.decision == "keep" else rewrite.confidence


def _precision(search: TurnSearch, collection: str, asked: HeldOutQuestion, rewrite: Rewrite) -> float:
    plan = search.plan(asked.text, asked.conversation, rewrite)
    hits, _ = search.hits(search.collection(collection), plan, Stopwatch(), k=100)
    run, qrels = {"q": ranking(asked, hits)}, {"q": {place.id: 1 for place in asked.places}}
    return per_question(run, qrels, ("AP",))["q"]["AP"] if asked.places else 0.0
