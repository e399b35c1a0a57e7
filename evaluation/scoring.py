"""From every question's scores to means with intervals, by the parts of a set, and tests against a baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from evaluation.metrics.significance import Estimate, estimate, estimates, holm, randomisation
from evaluation.reports.runs import Metric, Scores, Test
from evaluation.sets.base import Question, slices

SMALLEST_PART = 5
"""Parts with fewer questions say nothing and are left out."""


def metrics(
    set_name: str,
    level: str,
    system: str,
    scores: Scores,
    questions: Mapping[str, Question],
    parts: Callable[[Question], Sequence[str]] = slices,
) -> list[Metric]:
    """Means of every measure over every part that has questions enough; `all` always."""
    members: dict[str, list[str]] = {}
    for name in scores:
        for part in parts(questions[name]):
            members.setdefault(part, []).append(name)
    measures = list(next(iter(scores.values()), {}))
    found = []
    for part, names in members.items():
        if len(names) < SMALLEST_PART and part != "all":
            continue
        values = np.array([[scores[name][measure] for measure in measures] for name in names])
        dialogs = [questions[name].dialog for name in names]
        for measure, one in zip(measures, estimates(values, dialogs), strict=True):
            found.append(Metric(set_name, level, system, part, measure, one.mean, one.low, one.high, one.n))
    return found


def tests(
    set_name: str,
    level: str,
    measure: str,
    baseline: str,
    scores: Mapping[str, Scores],
    questions: Mapping[str, Question],
) -> list[Test]:
    """Every other system against `baseline`, over the questions both answered; one family for Holm."""
    found: list[tuple[str, Estimate, float]] = []
    for system, values in scores.items():
        if system != baseline:
            before = scores[baseline]
            names = [name for name in values if name in before]
            differences = [values[name][measure] - before[name][measure] for name in names]
            dialogs = [questions[name].dialog for name in names]
            found.append((system, estimate(differences, dialogs), randomisation(differences, dialogs)))
    corrected = holm([p for _, _, p in found])
    return [
        Test(set_name, level, measure, baseline, system, one.mean, one.low, one.high, p, p_holm)
        for (system, one, p), p_holm in zip(found, corrected, strict=True)
    ]


def percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    """The median and the 95th percentile; 0 of nothing."""
    import numpy as np

    if not seconds:
        return 0.0, 0.0
    return float(np.percentile(seconds, 50)), float(np.percentile(seconds, 95))
