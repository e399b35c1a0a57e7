"""From every question's scores to means with intervals, by the parts of a set, and tests against a baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from evaluation.metrics.significance import Estimate, estimate, estimates, holm, randomisation
from evaluation.reports.run_folder import Metric, Scores, Test
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
    metrics = []
    for part, names in members.items():
        if len(names) < SMALLEST_PART and part != "all":
            continue
        values = np.array([[scores[name][measure] for measure in measures] for name in names])
        dialogs = [questions[name].dialog for name in names]
        for measure, interval in zip(measures, estimates(values, dialogs), strict=True):
            metrics.append(
                Metric(set_name, level, system, part, measure, interval.mean, interval.low, interval.high, interval.n)
            )
    return metrics


def tests(
    set_name: str,
    level: str,
    measure: str,
    baseline: str,
    scores: Mapping[str, Scores],
    questions: Mapping[str, Question],
) -> list[Test]:
    """Every other system against `baseline`, over the questions both answered; one family for Holm."""
    values = {
        system: {name: scores_of[measure] for name, scores_of in scores_by_question.items()}
        for system, scores_by_question in scores.items()
    }
    pairs = [(baseline, system) for system in scores if system != baseline]
    return paired((set_name, level, measure), pairs, values, lambda name: questions[name].dialog)


def paired(
    place: tuple[str, str, str],
    pairs: Iterable[tuple[str, str]],
    values: Mapping[str, Mapping[str, float]],
    cluster: Callable[[str], str],
) -> list[Test]:
    """Each pair of systems, the second against the first, over what both have a value for; one family for Holm.

    `place` is set, level and measure; whole clusters are drawn and flipped.
    """
    estimates: list[tuple[str, str, Estimate, float]] = []
    for before, after in pairs:
        names = [name for name in values[after] if name in values[before]]
        differences = [values[after][name] - values[before][name] for name in names]
        clusters = [cluster(name) for name in names]
        estimates.append((before, after, estimate(differences, clusters), randomisation(differences, clusters)))
    return family(place, estimates)


def family(place: tuple[str, str, str], estimates: Sequence[tuple[str, str, Estimate, float]]) -> list[Test]:
    """Tests of one family, each with its baseline, system, difference and p, corrected by Holm's method."""
    corrected = holm([p for *_, p in estimates])
    return [
        Test(*place, before, after, value.mean, value.low, value.high, p, p_holm)
        for (before, after, value, p), p_holm in zip(estimates, corrected, strict=True)
    ]


def percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    """The median and the 95th percentile; 0 of nothing."""
    if not seconds:
        return 0.0, 0.0
    return float(np.percentile(seconds, 50)), float(np.percentile(seconds, 95))
