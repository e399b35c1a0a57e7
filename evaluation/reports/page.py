"""A run as one HTML page: tables and plots, opened without internet, nothing in it that could run.

All texts come from data sets, documents and models; the template escapes every one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from markupsafe import Markup, escape

from evaluation.reports import charts
from evaluation.reports.compare import Comparison
from evaluation.reports.failures import SHOWN as SHOWN_FAILURES
from evaluation.reports.failures import STAGES, counts, failures, headline, told
from evaluation.reports.runs import EvaluationRun, Metric
from evaluation.reports.tables import HEADINGS, SHOWN, by_system, p_value
from evaluation.sets.base import DEPTHS

PLOTTED = ("AP", "R@5", "R@20", "nDCG@5")
MOST_LINES = 8


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it is shown: texts, not yet escaped."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def html(run: EvaluationRun, comparison: Comparison | None = None, extra: Sequence[Markup] = ()) -> str:
    """The page; with a comparison it shows that too. `extra` are further plots, made by `charts`."""
    from jinja2 import Environment

    failed = failures(run)
    template = files(__package__).joinpath("report.html").read_text("utf-8")
    return (
        Environment(autoescape=True)
        .from_string(template)
        .render(
            run=run,
            # Of a diagnosis its failures are read, and there is one system.
            charts=[*([] if run.kind == "diagnosis" else _charts(run)), *extra],
            headline=headline(run, failed) if run.kind == "diagnosis" else "",
            failures=[
                (stage, said, [one for one in failed if one["stage"] == stage]) for stage, said in STAGES.items()
            ],
            counts=Table(*counts(failed)) if failed else None,
            shown=SHOWN_FAILURES,
            told=told,
            summaries=_summaries(run),
            tests=_tests(run),
            parts=_parts(run),
            comparison=comparison,
            differences=_differences(comparison) if comparison else None,
            description=json.dumps(dict(run.description), indent=1, ensure_ascii=False),
            table=_table,
        )
    )


def _charts(run: EvaluationRun) -> list[Markup]:
    found = [metric for metric in run.metrics if metric.part == "all"]
    measured = list(dict.fromkeys(metric.measure for metric in found))
    plotted = [measure for measure in PLOTTED if measure in measured] or measured
    systems = list(dict.fromkeys(metric.system for metric in found))
    drawn: list[Markup] = []
    for set_name, level in dict.fromkeys((metric.set, metric.level) for metric in found):
        here = [metric for metric in found if (metric.set, metric.level) == (set_name, level)]
        for measure in plotted:
            rows = [
                charts.Bar(m.system, m.mean, m.low, m.high, systems.index(m.system))
                for m in here
                if m.measure == measure
            ]
            if rows:
                drawn.append(charts.bars(f"{set_name}, {level}: {HEADINGS.get(measure, measure)}", rows))
        drawn += _against_latency(run, set_name, level, here, plotted[0], systems)
        drawn += _by_depth(run, set_name, level, plotted[0], systems)
    return drawn


def _against_latency(
    run: EvaluationRun, set_name: str, level: str, here: Sequence[Metric], measure: str, systems: Sequence[str]
) -> list[Markup]:
    seconds = {one.system: one.p50 for one in run.latencies if one.set == set_name}
    points = [
        charts.ChartPoint(m.system, 1000 * seconds[m.system], m.mean, systems.index(m.system))
        for m in here
        if m.measure == measure and m.system in seconds
    ]
    name = HEADINGS.get(measure, measure)
    title = f"{set_name}, {level}: {name} against milliseconds a turn"
    return [charts.scatter(title, "milliseconds, median", name, points)] if len(points) > 1 else []


def _by_depth(run: EvaluationRun, set_name: str, level: str, measure: str, systems: Sequence[str]) -> list[Markup]:
    names = [name for _, _, name in DEPTHS]
    values: dict[str, dict[str, float]] = {}
    for metric in run.metrics:
        if (metric.set, metric.level, metric.measure) == (set_name, level, measure):
            values.setdefault(metric.system, {})[metric.part.removeprefix("turn ")] = metric.mean
    present = [name for name in names if any(name in found for found in values.values())]
    series = [
        charts.Line(system, [found.get(name) for name in present], systems.index(system))
        for system, found in list(values.items())[-MOST_LINES:]
    ]
    name = HEADINGS.get(measure, measure)
    title = f"{set_name}, {level}: {name} by turn of the conversation"
    return [charts.lines(title, "turn", name, present, series)] if len(present) > 1 else []


def _summaries(run: EvaluationRun) -> list[Table]:
    """One table for all levels that measure the same."""
    groups: dict[tuple[str, ...], list[Metric]] = {}
    found = [metric for metric in run.metrics if metric.part == "all"]
    for level in dict.fromkeys(metric.level for metric in found):
        here = [metric for metric in found if metric.level == level]
        groups.setdefault(SHOWN.get(run.kind) or tuple(dict.fromkeys(m.measure for m in here)), []).extend(here)
    return [
        Table(
            ["set", "level", "system", *(HEADINGS.get(m, m) for m in measures)],
            [
                [*key, *(_interval(values.get(measure)) for measure in measures)]
                for key, values in by_system(metrics).items()
            ],
        )
        for measures, metrics in groups.items()
    ]


def _tests(run: EvaluationRun) -> Table:
    rows = [
        [t.set, t.level, HEADINGS.get(t.measure, t.measure), t.system, t.baseline, f"{t.difference:+.3f}",
         f"{t.low:+.3f} to {t.high:+.3f}", p_value(t.p_holm)]
        for t in run.tests
    ]  # fmt: skip
    return Table(["set", "level", "measure", "system", "against", "difference", "95 %", "p"], rows)


def _parts(run: EvaluationRun) -> Table:
    measures = tuple(dict.fromkeys(metric.measure for metric in run.metrics))
    shown = [measure for measure in PLOTTED if measure in measures] or list(measures)[:5]
    found: dict[tuple[str, str, str, str], dict[str, Metric]] = {}
    for metric in run.metrics:
        if metric.part != "all":
            found.setdefault((metric.set, metric.level, metric.system, metric.part), {})[metric.measure] = metric
    rows = [
        [*key, *(_interval(values.get(measure)) for measure in shown), str(next(iter(values.values())).n)]
        for key, values in found.items()
    ]
    return Table(["set", "level", "system", "part", *(HEADINGS.get(m, m) for m in shown), "n"], rows)


def _differences(comparison: Comparison) -> Table:
    return Table(DIFFERENCE_HEAD, difference_rows(comparison))


DIFFERENCE_HEAD = ("set", "level", "system", "measure", "before", "after", "difference", "95 %", "p (Holm)", "n")


def difference_rows(comparison: Comparison) -> list[list[str]]:
    """Differences as texts, for the page and for the terminal."""
    return [
        [
            d.set,
            d.level,
            d.after_system if d.after_system == d.before_system else f"{d.before_system} → {d.after_system}",
            HEADINGS.get(d.measure, d.measure),
            f"{d.before:.3f}",
            f"{d.after:.3f}",
            f"{d.difference:+.3f}",
            f"{d.low:+.3f} to {d.high:+.3f}",
            p_value(d.p_holm),
            str(d.n),
        ]
        for d in comparison.differences
    ]


def _ends(metric: Metric) -> tuple[float, float]:
    """The interval, or just the value where there is none."""
    return (metric.mean, metric.mean) if math.isnan(metric.low) else (metric.low, metric.high)


def _interval(metric: Metric | None) -> str:
    if metric is None:
        return ""
    return f"{metric.mean:.3f}" + ("" if math.isnan(metric.low) else f" ({metric.low:.3f}–{metric.high:.3f})")


def _table(table: Table) -> Markup:
    head = Markup("").join(Markup("<th>{}</th>").format(cell) for cell in table.head)
    rows = Markup("").join(
        Markup("<tr>{}</tr>").format(Markup("").join(Markup("<td>{}</td>").format(escape(cell)) for cell in row))
        for row in table.rows
    )
    return Markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(head, rows)
