"""Runs as Markdown tables, for the terminal and for the documentation."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from evaluation.reports.runs import EvaluationRun, Metric
from evaluation.sets.base import GROUPINGS

SHOWN = {
    "retrieval": ("AP", "R@1", "R@5", "R@10", "R@20", "nDCG@5", "RR"),
}
"""The columns of a kind of run; other kinds show everything they measured."""

HEADINGS = {"AP": "MAP", "RR": "MRR"}


def cell(text: object) -> str:
    """A text that cannot break out of its cell."""
    return " ".join(str(text).split()).replace("|", "\\|")


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; the first columns of text left, everything else as it is."""
    lines = [f"| {' | '.join(map(cell, head))} |", "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(map(cell, row))} |" for row in rows]
    return "\n".join(lines)


def summary(run: EvaluationRun, part: str = "all", *, intervals: bool = False) -> str:
    """Every system of every set, one row each; levels that measure different things in tables of their own."""
    shown = [metric for metric in run.metrics if metric.part == part]
    groups: dict[tuple[str, ...], list[Metric]] = {}
    for level in dict.fromkeys(metric.level for metric in shown):
        here = [metric for metric in shown if metric.level == level]
        measures = SHOWN.get(run.kind) or tuple(dict.fromkeys(metric.measure for metric in here))
        groups.setdefault(measures, []).extend(here)
    return "\n\n".join(_summary(run, metrics, measures, intervals) for measures, metrics in groups.items())


def _summary(run: EvaluationRun, metrics: Sequence[Metric], measures: Sequence[str], intervals: bool) -> str:
    latencies = {(one.set, one.system): one for one in run.latencies}
    rows = []
    for (set_name, level, system), values in by_system(metrics).items():
        row: list[object] = [set_name, level, system]
        row += [_shown(values.get(measure), intervals=intervals) for measure in measures]
        timed = latencies.get((set_name, system))
        if run.latencies:
            row += [f"{1000 * timed.p50:.0f}", f"{1000 * timed.p95:.0f}"] if timed else ["", ""]
        row.append(max(metric.n for metric in values.values()))
        rows.append(row)
    timing = ["ms p50", "ms p95"] if run.latencies else []
    return table(["set", "level", "system", *(HEADINGS.get(m, m) for m in measures), *timing, "n"], rows)


def by_system(metrics: Sequence[Metric]) -> dict[tuple[str, str, str], dict[str, Metric]]:
    """Metrics by set, level and system, then by measure, in the order they were measured."""
    found: dict[tuple[str, str, str], dict[str, Metric]] = {}
    for metric in metrics:
        found.setdefault((metric.set, metric.level, metric.system), {})[metric.measure] = metric
    return found


def tests(run: EvaluationRun) -> str:
    """What differs from the baseline, and how surely."""
    rows = [
        [
            test.set,
            test.level,
            HEADINGS.get(test.measure, test.measure),
            test.system,
            test.baseline,
            f"{test.difference:+.3f}",
            f"{test.low:+.3f} to {test.high:+.3f}",
            p_value(test.p_holm),
        ]
        for test in run.tests
    ]
    return table(["set", "level", "measure", "system", "against", "difference", "95 %", "p (Holm)"], rows)


def parts(run: EvaluationRun, by: str) -> str:
    """The parts of every set by one of `GROUPINGS`, the systems of each beside one another.

    Sets that were also measured together (`product-uv` in `product`) are shown together.
    """
    sets = {metric.set for metric in run.metrics}
    wanted = [
        metric
        for metric in run.metrics
        if metric.part.startswith(GROUPINGS[by]) and metric.set.partition("-")[0] not in sets - {metric.set}
    ]
    measures = SHOWN.get(run.kind) or tuple(dict.fromkeys(metric.measure for metric in wanted))
    found: dict[tuple[str, str, str, str], dict[str, Metric]] = {}
    for metric in sorted(wanted, key=lambda metric: (metric.set, metric.level, metric.part)):
        found.setdefault((metric.set, metric.level, metric.part, metric.system), {})[metric.measure] = metric
    rows = [
        [*key, *(_shown(values.get(measure)) for measure in measures), next(iter(values.values())).n]
        for key, values in found.items()
    ]
    return table(["set", "level", "part", "system", *(HEADINGS.get(m, m) for m in measures), "n"], rows)


_SYSTEM = re.compile(r"(?P<head>(?P<form>.*):(?P<retriever>\w+))(?P<reading>\+rerank(?:-always)?)?(?P<label>@\w+)?")
_GAP = 0.005
"""A written question that finds no more than this leaves nothing to close."""


def gap(run: EvaluationRun) -> str:
    """Every set with its systems side by side: the typed question, rewriters, and what a person wrote.

    Below that the same by kind of reference and by need. "Gap closed" is how far the MAP of each rewriter has come
    from that of the typed question, searched in the same way, to that of the written one. Of a set with several levels
    the first is shown.
    """
    level = {metric.set: metric.level for metric in reversed(run.metrics)}
    shown = [metric for metric in run.metrics if metric.level == level[metric.set]]
    sets = {metric.set for metric in shown}
    apart = [metric for metric in shown if metric.set.partition("-")[0] not in sets - {metric.set}]
    made = [_gap(run, [metric for metric in shown if metric.part == "all"], ("AP", "R@5", "R@10", "R@20", "nDCG@5"))]
    for by in ("kind", "need"):
        if rows := [metric for metric in apart if metric.part.startswith(GROUPINGS[by])]:
            made.append(_gap(run, rows, ("AP", "R@5")))
    return "\n\n".join(made) + "\n"


def _gap(run: EvaluationRun, metrics: Sequence[Metric], measures: Sequence[str]) -> str:
    found: dict[tuple[str, str], dict[str, dict[str, Metric]]] = {}
    for metric in metrics:
        found.setdefault((metric.set, metric.part), {}).setdefault(metric.system, {})[metric.measure] = metric
    named = {name: match for name in dict.fromkeys(m.system for m in metrics) if (match := _SYSTEM.fullmatch(name))}
    order = {"typed": 0, "context": 1, "human": 3}
    matches = sorted(named.values(), key=lambda match: (order.get(match["form"], 2), match["label"] is None))
    columns = dict.fromkeys((match["head"], match["label"] or "") for match in matches)
    times = {(one.set, one.system): f"{1000 * one.p50:.0f}" for one in run.latencies}
    timed = bool(times) and all(metric.part == "all" for metric in metrics)
    rows: list[list[object]] = []
    for (set_name, part), systems in found.items():
        for reading in sorted({match["reading"] or "" for name, match in named.items() if name in systems}):
            names = [f"{head}{reading}{label}" for head, label in columns]
            cells = [
                " / ".join(f"{systems[name][one].mean:.3f}".lstrip("0") for one in measures) if name in systems else ""
                for name in names
            ]
            place = set_name if part == "all" else f"{set_name}: {part}"
            count = next(iter(next(iter(systems.values())).values())).n
            gaps = [one for name in names if name in systems and (one := _closed(systems, named[name]))]
            closed = " → ".join(dict.fromkeys(gaps) if {*gaps} == {"–"} else gaps)
            taken = [" / ".join(times.get((set_name, name), "–") for name in names)] if timed else []
            rows.append([f"{place} ({count})", reading.removeprefix("+"), *cells, closed, *taken])
    head = ["set", "read again", *(one + label for one, label in columns), "gap closed", *(["ms p50"] if timed else [])]
    return f"{' / '.join(HEADINGS.get(one, one) for one in measures)}:\n\n{table(head, rows)}"


def _closed(systems: Mapping[str, Mapping[str, Metric]], match: re.Match[str]) -> str:
    tail = f":{match['retriever']}{match['reading'] or ''}"
    if match["form"] in ("typed", "context", "human") or not {f"typed{tail}", f"human{tail}"} <= systems.keys():
        return ""
    low, now, high = (systems[name]["AP"].mean for name in (f"typed{tail}", match[0], f"human{tail}"))
    return f"{100 * (now - low) / (high - low):.0f} %" if high - low > _GAP else "–"


def p_value(p: float) -> str:
    """A p as papers print it."""
    return "< .001" if p < 0.001 else f"{p:.3f}".lstrip("0")


def _shown(metric: Metric | None, *, intervals: bool = False) -> str:
    if metric is None:
        return ""
    if not intervals or math.isnan(metric.low):
        return f"{metric.mean:.3f}"
    return f"{metric.mean:.3f} ({metric.low:.3f}-{metric.high:.3f})"
