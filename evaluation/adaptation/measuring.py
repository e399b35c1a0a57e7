"""Two rewriters compared on held-out questions, by the code a chat turn searches with.

Follow-ups and questions that stand alone are judged apart, at passage and document level; differences are tested by
paired randomisation over whole conversations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from evaluation.adaptation.questions import HeldOutQuestion, ranking
from evaluation.metrics.ranking import per_question
from evaluation.metrics.significance import randomisation

if TYPE_CHECKING:
    from server.turn.search import TurnSearch

MEASURES = ("AP", "R@5", "R@10", "R@20", "nDCG@5")
DECIDES = "AP"
SURE = 0.05
"""A difference with a larger p is none."""
LEAST = 30
"""Fewer follow-ups than that decide nothing."""

Group = Literal["follow-ups", "stand-alone"]


@dataclass(frozen=True, slots=True)
class Measured:
    """What one rewriter came to: `values[level][question][measure]`, and milliseconds a rewrite at p50 and p95."""

    values: dict[str, dict[str, dict[str, float]]]
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class MeasuredChange:
    """A measure before and after, over the questions of one group. `p` is of the difference, two-sided."""

    group: Group
    level: str
    measure: str
    questions: int
    before: float
    after: float
    p: float

    @property
    def worse(self) -> bool:
        """Whether it fell, surely."""
        return self.after < self.before and self.p <= SURE

    @property
    def better(self) -> bool:
        """Whether it rose, surely."""
        return self.after > self.before and self.p <= SURE


@dataclass(frozen=True, slots=True)
class AdaptationVerdict:
    """Whether the new rewriter may serve, why, and the changes behind it."""

    promote: bool
    reason: str
    changes: tuple[MeasuredChange, ...]


def measure(
    search: TurnSearch,
    collection: str,
    asked: Sequence[HeldOutQuestion],
    k: int = 100,
    counted: Callable[[], None] = lambda: None,
) -> Measured:
    """Search for every question as a turn would and judge what comes, passages and documents."""
    passages: dict[str, list[str]] = {}
    documents: dict[str, list[str]] = {}
    seconds = list[float]()
    for one in asked:
        found = search.find(one.text, collection=collection, conversation=one.conversation, k=k)
        passages[one.id] = ranking(one, found.hits)
        documents[one.id] = list(dict.fromkeys(hit.passage.document_id for hit in found.hits))
        seconds.append(found.plan.rewrite.seconds)
        counted()
    wanted = {
        "passage": {one.id: {place.id: 1 for place in one.places} for one in asked if one.places},
        "document": {one.id: dict.fromkeys(one.documents, 1) for one in asked if one.documents},
    }
    runs = {"passage": passages, "document": documents}
    ordered = sorted(seconds) or [0.0]
    return Measured(
        {level: per_question(runs[level], qrels, MEASURES) for level, qrels in wanted.items()},
        1e3 * ordered[len(ordered) // 2],
        1e3 * ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))],
    )


def judge(asked: Sequence[HeldOutQuestion], before: Measured, after: Measured) -> AdaptationVerdict:
    """Better for follow-ups, surely, at passage level; worse, surely, for nothing: only then may the new one serve."""
    groups: dict[Group, list[HeldOutQuestion]] = {
        "follow-ups": [one for one in asked if one.needs_rewrite],
        "stand-alone": [one for one in asked if not one.needs_rewrite],
    }
    changes = tuple(
        change
        for group, members in groups.items()
        for level in ("passage", "document")
        for change in _changes(group, level, members, before, after)
    )
    deciding = {(change.group, change.level): change for change in changes if change.measure == DECIDES}
    follow = deciding.get(("follow-ups", "passage"))
    if follow is None or follow.questions < LEAST:
        count = follow.questions if follow else 0
        return AdaptationVerdict(
            False, f"{count} held-out follow-ups are too few to decide by ({LEAST} are needed).", changes
        )
    verdict = f"MAP of follow-ups {follow.before:.3f} → {follow.after:.3f} (p = {follow.p:.3f})"
    if not follow.better:
        return AdaptationVerdict(False, f"Follow-ups do not surely improve: {verdict}.", changes)
    worse = [change for change in deciding.values() if change.worse]
    if worse:
        one = worse[0]
        return AdaptationVerdict(
            False,
            f"{one.group} get worse at {one.level} level: MAP {one.before:.3f} → {one.after:.3f} (p = {one.p:.3f}).",
            changes,
        )
    return AdaptationVerdict(True, f"{verdict}; questions that stand alone are no worse.", changes)


def _changes(
    group: Group, level: str, asked: Sequence[HeldOutQuestion], before: Measured, after: Measured
) -> list[MeasuredChange]:
    old, new = before.values[level], after.values[level]
    judged = [one for one in asked if one.id in old and one.id in new]
    if not judged:
        return []
    clusters = [one.dialog for one in judged]
    changes = list[MeasuredChange]()
    for name in MEASURES:
        pairs = [(old[one.id][name], new[one.id][name]) for one in judged]
        p = randomisation([b - a for a, b in pairs], clusters)
        n = len(pairs)
        changes.append(
            MeasuredChange(group, level, name, n, sum(a for a, _ in pairs) / n, sum(b for _, b in pairs) / n, p)
        )
    return changes
