"""`--fail-under`: numbers below which an evaluation counts as failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from evaluation.errors import BelowThreshold, EvaluationError
from evaluation.reports.runs import Metric


@dataclass(frozen=True, slots=True)
class QualityGate:
    """Every metric whose key matches `pattern` has to be at least `least`."""

    pattern: str
    least: float


def parse_gate(text: str) -> QualityGate:
    """`MEASURE=0.85`, or with what it is measured on: `set/level/system/part/MEASURE=0.85`, with `*` and `?`.

    Raises EvaluationError.
    """
    pattern, equals, number = text.rpartition("=")
    try:
        least = float(number)
    except ValueError:
        equals = ""
        least = 0.0
    if not equals or not pattern or pattern.count("/") not in (0, 4):
        raise EvaluationError(
            f"{text!r} is no gate: write MEASURE=NUMBER or SET/LEVEL/SYSTEM/PART/MEASURE=NUMBER, such as "
            "doc2dial/section/auto:legs/all/R@20=0.85; * stands for anything."
        )
    return QualityGate(pattern if "/" in pattern else f"*/all/{pattern}", least)


def check(metrics: Sequence[Metric], gates: Sequence[QualityGate]) -> None:
    """Raise BelowThreshold naming every metric below its gate, EvaluationError for a gate nothing matches."""
    failures = []
    for gate in gates:
        matching = [metric for metric in metrics if fnmatchcase(metric.key, gate.pattern)]
        if not matching:
            raise EvaluationError(f"Nothing was measured that matches the gate {gate.pattern!r}.")
        failures += [
            f"{metric.key} is {metric.mean:.4f}, below {gate.least:g}"
            for metric in matching
            if metric.mean < gate.least
        ]
    if failures:
        raise BelowThreshold("; ".join(failures) + ".")
