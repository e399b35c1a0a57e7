"""The gate's threshold, chosen by what it does to retrieval.

Every question is searched twice, rewritten and left alone; after that each threshold costs nothing to try.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from index.metrics import per_question
from rewriter.load import DESCRIPTION
from rewriter.protocol import Rewrite
from server.adapting.questions import Asked, ranking

if TYPE_CHECKING:
    from rewriter.protocol import Rewriter
    from server.turn.search import TurnSearch

GRID = tuple(round(0.05 * n, 2) for n in range(1, 20))
USUAL = 0.5
WORTH = 0.002
"""A threshold must gain so much MAP over the usual one to be taken instead of it."""


@dataclass(frozen=True, slots=True)
class Point:
    """What a threshold comes to: MAP, and the share of questions that are rewritten."""

    threshold: float
    map: float
    rewritten: float


def curve(
    search: TurnSearch,
    always: Rewriter,
    collection: str,
    asked: Sequence[Asked],
    counted: Callable[[], None] = lambda: None,
) -> list[Point]:
    """MAP over thresholds. `always` is the rewriter with its gate open, so that each question has a rewrite to try."""
    chances, rewritten, kept = list[float](), list[float](), list[float]()
    for one in asked:
        question = one.example.question
        made = always.rewrite(one.conversation, question)
        p = chance(made)
        left = Rewrite(question, "keep", confidence=1 - p, needs_history=p)
        chances.append(p)
        found = [_precision(search, collection, one, rewrite) for rewrite in (made, left)]
        rewritten.append(found[0])
        kept.append(found[1])
        counted()
    n = max(1, len(asked))
    return [
        Point(
            t,
            sum(a if p >= t else b for p, a, b in zip(chances, rewritten, kept, strict=True)) / n,
            sum(p >= t for p in chances) / n,
        )
        for t in GRID
    ]


def best(points: Sequence[Point]) -> Point:
    """The threshold of the highest MAP; the usual one where none is worth leaving it, the higher one of equals."""
    usual = next(point for point in points if point.threshold == USUAL)
    top = max(points, key=lambda point: (point.map, point.threshold))
    return top if top.map - usual.map >= WORTH else usual


def chance(rewrite: Rewrite) -> float:
    """The calibrated probability that the question needs its conversation, as far as the rewriter has one."""
    if rewrite.needs_history is not None:
        return rewrite.needs_history
    if rewrite.confidence is None:
        return 1.0 if rewrite.decision in ("rewrite", "expand") else 0.0
    return 1 - rewrite.confidence if rewrite.decision == "keep" else rewrite.confidence


def set_threshold(folder: Path, threshold: float) -> None:
    """Write the gate's threshold into a run's description, in one step."""
    path = folder / DESCRIPTION
    description: dict[str, Any] = json.loads(path.read_text("utf-8"))
    if "gate" in description:
        description["gate"]["threshold"] = threshold
    else:
        description["gate_threshold"] = threshold
    part = path.with_suffix(".part")
    part.write_text(json.dumps(description, indent=2) + "\n", "utf-8")
    part.replace(path)


def _precision(search: TurnSearch, collection: str, asked: Asked, rewrite: Rewrite) -> float:
    plan = search.plan(asked.example.question, asked.conversation, rewrite)
    hits = search.retrieve(search.collection(collection), plan, k=100)
    if search.reranks(plan) and hits:
        hits = search.rerank(plan, hits)
    run, qrels = {"q": ranking(asked, hits)}, {"q": {place.id: 1 for place in asked.places}}
    return per_question(run, qrels, ("AP",))["q"]["AP"] if asked.places else 0.0
