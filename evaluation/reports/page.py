"""A run as one HTML page: tables and plots, opened without internet, nothing in it that could run.

All texts come from data sets, documents and models; the template escapes every one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files

from markupsafe import Markup

from evaluation.reports import charts
from evaluation.reports.compare import Comparison
from evaluation.reports.failures import SHOWN as SHOWN_FAILURES
from evaluation.reports.failures import STAGES, counts, failures, headline, told
from evaluation.reports.runs import EvaluationRun, Metric
from evaluation.reports.tables import HEADINGS, Table, differences, grouped, headings, shown, summaries, tests
from evaluation.sets.base import DEPTHS

PLOTTED = ("AP", "R@5", "R@20", "nDCG@5")
MOST_LINES = 8


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
            summaries=summaries(run, intervals=True),
            tests=tests(run),
            parts=_parts(run),
            comparison=comparison,
            differences=differences(comparison) if comparison else None,
            description=json.dumps(dict(run.description), indent=1, ensure_ascii=False),
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


def _parts(run: EvaluationRun) -> Table:
    measures = tuple(dict.fromkeys(metric.measure for metric in run.metrics))
    chosen = [measure for measure in PLOTTED if measure in measures] or list(measures)[:5]
    found = grouped((one for one in run.metrics if one.part != "all"), "set", "level", "system", "part")
    rows = [
        [*key, *(shown(values.get(measure), intervals=True) for measure in chosen), next(iter(values.values())).n]
        for key, values in found.items()
    ]
    return Table(["set", "level", "system", "part", *headings(chosen), "n"], rows)
