"""A run as one HTML page: tables and plots, opened without internet, nothing in it that could run.

All texts come from data sets, documents and models; the template escapes every one.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import regex
from markupsafe import Markup

from evaluation.reports import page
from evaluation.reports.run_folder import EvaluationRun, Metric
from evaluation.reports.tables import (
    HEADINGS,
    Comparison,
    Table,
    differences,
    grouped,
    headings,
    shown,
    summaries,
    table,
    tests,
)
from evaluation.sets.base import DEPTHS
from text.modules import need_extra
from text.sanitize import sanitize_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_INK = "#010203"
"""Stands for the page's ink until the drawing is done: matplotlib knows no `currentColor`."""
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "anaphora",
    "text.parse_math": False,
    "font.family": "sans-serif",
} | {name: _INK for name in ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")}
_NO_METADATA: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))


@dataclass(frozen=True, slots=True)
class Bar:
    """A value with its interval."""

    label: str
    value: float
    low: float
    high: float
    colour: int = 0


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """A place in a plane, with its name."""

    label: str
    x: float
    y: float
    colour: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """A named series over the same places on the x axis; None leaves a gap."""

    label: str
    values: Sequence[float | None]
    colour: int = 0


def bars(title: str, rows: Sequence[Bar]) -> Markup:
    """Horizontal bars from 0, each with its interval as a whisker."""
    with _drawing(title, height=0.8 + 0.25 * len(rows)) as (axes, drawn):
        for place, row in enumerate(rows):
            interval = [[max(0.0, row.value - row.low)], [max(0.0, row.high - row.value)]]
            bar = axes.barh(place, row.value, color=f"C{row.colour}", xerr=interval, ecolor=_INK)
            axes.bar_label(bar, [f"{row.value:.3f}"], padding=3)
        axes.set_yticks(range(len(rows)), [row.label for row in rows])
        axes.invert_yaxis()
    return drawn[0]


def scatter(title: str, x_name: str, y_name: str, points: Sequence[ChartPoint]) -> Markup:
    """Points with labels; the x axis is logarithmic, for seconds and costs."""
    with _drawing(title, x_name, y_name) as (axes, drawn):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
        for point in points:
            axes.plot(max(point.x, 1e-4), point.y, "o", color=f"C{point.colour}")
            axes.annotate(point.label, (max(point.x, 1e-4), point.y), (6, 0), textcoords="offset points", va="center")
    return drawn[0]


def lines(title: str, x_name: str, y_name: str, ticks: Sequence[str], series: Sequence[Line]) -> Markup:
    """Lines over named places, with a legend."""
    with _drawing(title, x_name, y_name) as (axes, drawn):
        for line in series:
            values = [float("nan") if value is None else value for value in line.values]
            axes.plot(range(len(ticks)), values, ".-", label=line.label, color=f"C{line.colour}")
        axes.set_xticks(range(len(ticks)), ticks)
        if series:
            axes.legend(loc="upper left", bbox_to_anchor=(0, -0.15), frameon=False)
    return drawn[0]


def write_scatter(
    path: Path, x_name: str, y_name: str, points: Sequence[tuple[float, float]], joined: Sequence[tuple[float, float]]
) -> None:
    """A picture in a file of its own, of the kind its ending says: points over a logarithmic x, some of them joined."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="tight")
    axes = figure.add_subplot(xlabel=x_name, ylabel=y_name, xscale="log")
    axes.plot(*zip(*points, strict=True), "o", markersize=4)
    axes.plot(*zip(*joined, strict=True))
    figure.savefig(path, dpi=120)


@contextmanager
def _drawing(
    title: str, x_name: str = "", y_name: str = "", height: float = 4.0
) -> Iterator[tuple[Axes, list[Markup]]]:
    """Axes to draw on, and a list that their SVG is put into afterwards."""
    need_extra("eval", "A plot", "matplotlib")
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    drawn: list[Markup] = []
    with rc_context(_STYLE):
        figure = Figure(figsize=(8, height))
        axes = figure.add_subplot(title=title, xlabel=x_name, ylabel=y_name)
        axes.spines[["top", "right"]].set_visible(False)
        yield axes, drawn
        for artist in figure.findobj():
            artist.set_clip_on(False)
        written = io.StringIO()
        figure.savefig(written, format="svg", transparent=True, bbox_inches="tight", metadata=_NO_METADATA)
    svg = written.getvalue()
    drawn.append(Markup(svg[svg.index("<svg") :].replace(_INK, "currentColor")))


STAGES = {
    "extraction": "What answers the question is not in the index. Is the document there, and was this part of it read? "
    "`anaphora extract` shows what is read of a file.",
    "rewriting": "A person's wording finds the answer, the rewriter's does not. `anaphora adapt` trains a rewriter on "
    "your documents.",
    "selection": "It is in the index and was not among the evidence, though the question is right. Look at the legs' "
    "weights, `retrieval.evidence` and the cross-encoder; `anaphora calibrate` chooses them on your questions.",
    "generation": "The answer was in the evidence. Another model, or another style of answer, may say it.",
}
"""The stages in the order of a turn, and what can be done at each."""
SHOWN = 500
"""Failures told one by one; `failures.jsonl` has all."""
CHARS = 2000
_MARKUP = regex.compile(r"[\\`*_\[\]<>#|&~]")


def cut(text: str) -> str:
    """As much of a text as a report shows."""
    return text if len(text) <= CHARS else f"{text[:CHARS]}…"


def failures(run: EvaluationRun) -> list[dict[str, Any]]:
    """The failures that a diagnosis kept; none for another kind of run."""
    path = run.folder / "failures.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line] if path.is_file() else []


def counts(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a table: failures by stage and label, and how many of each stage are confirmed."""
    labels = sorted({str(row["label"]) for row in rows})
    tally = Counter((row["stage"], row["label"]) for row in rows)
    table_rows = []
    for stage in STAGES:
        here = [row for row in rows if row["stage"] == stage]
        cells = (tally[stage, label] for label in labels)
        table_rows.append([stage, str(len(here)), str(sum(bool(row["confirmed"]) for row in here)), *map(str, cells)])
    return ["stage", "failures", "confirmed", *labels], table_rows


def told(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A failure as pairs of a name and a text, what is empty left out."""
    holding = set(row.get("holding", ()))
    sources = [f"[{n}] {title}{' (holds it)' if n in holding else ''}" for n, title in enumerate(row["evidence"], 1)]
    same = row["search_question"].casefold() == row["question"].casefold()
    pairs = [
        *(("before", line) for line in row["history"]),
        ("question", row["question"]),
        ("searched for", "" if same else row["search_question"]),
        ("a person's rewrite", row["rewrite"]),
        ("expected", row["expected"] or ("" if row["quotes"] else "nothing: the documents do not say")),
        *(("in the document", f"{quote['document']}: {quote['quote']}".removeprefix(": ")) for quote in row["quotes"]),
        (row["status"], row["answer"] or "(no answer)"),
        ("evidence", "; ".join(sources) or "none"),
        (f"{'confirmed' if row['confirmed'] else 'not confirmed'} with", row["oracle"]),
        ("answer then", row["oracle_answer"]),
        ("trace", f"anaphora trace show {row['trace']}" if row["trace"] else ""),
    ]
    return [(name, text) for name, text in pairs if text]


def markdown(run: EvaluationRun, rows: Sequence[Mapping[str, Any]]) -> str:
    """The report as Markdown."""
    questions = run.description["questions"]
    lines = [f"# Diagnosis: {escaped(run.name)}", "", f"{headline(run, rows)} Asked: {questions}.", ""]
    lines += [f"Note: {escaped(note)}\n" for note in run.notes]
    lines += [table(*counts(rows)), ""]
    left = SHOWN
    for stage, advice in STAGES.items():
        here = [row for row in rows if row["stage"] == stage]
        if here:
            lines += [f"## {stage.capitalize()}: {len(here)}", "", advice, ""]
        for row in here[:left]:
            lines += [f"### {escaped(row['id'])}: {row['label']}", ""]
            lines += [f"- **{escaped(name)}:** {escaped(text)}" for name, text in told(row)]
            lines.append("")
        left = max(0, left - len(here))
    return "\n".join(lines)


def headline(run: EvaluationRun, rows: Sequence[Mapping[str, Any]]) -> str:
    """How many answers were right."""
    judged = next((metric.n for metric in run.metrics if (metric.part, metric.measure) == ("all", "right")), 0)
    return f"{judged - len(rows)} of {judged} answers are right."


def escaped(text: str) -> str:
    """A text on one line of Markdown that is nothing but text there."""
    return _MARKUP.sub(lambda at: f"&#{ord(at[0])};", sanitize_line(" ".join(text.split())))


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
                (stage, title, [row for row in failed if row["stage"] == stage]) for stage, title in STAGES.items()
            ],
            counts=Table(*counts(failed)) if failed else None,
            shown=SHOWN,
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
    metrics = [metric for metric in run.metrics if metric.part == "all"]
    measured = list(dict.fromkeys(metric.measure for metric in metrics))
    plotted = [measure for measure in PLOTTED if measure in measured] or measured
    systems = list(dict.fromkeys(metric.system for metric in metrics))
    drawn: list[Markup] = []
    for set_name, level in dict.fromkeys((metric.set, metric.level) for metric in metrics):
        here = [metric for metric in metrics if (metric.set, metric.level) == (set_name, level)]
        for measure in plotted:
            rows = [
                page.Bar(m.system, m.mean, m.low, m.high, systems.index(m.system)) for m in here if m.measure == measure
            ]
            if rows:
                drawn.append(page.bars(f"{set_name}, {level}: {HEADINGS.get(measure, measure)}", rows))
        drawn += _against_latency(run, set_name, level, here, plotted[0], systems)
        drawn += _by_depth(run, set_name, level, plotted[0], systems)
    return drawn


def _against_latency(
    run: EvaluationRun, set_name: str, level: str, here: Sequence[Metric], measure: str, systems: Sequence[str]
) -> list[Markup]:
    seconds = {latency.system: latency.p50 for latency in run.latencies if latency.set == set_name}
    points = [
        page.ChartPoint(m.system, 1000 * seconds[m.system], m.mean, systems.index(m.system))
        for m in here
        if m.measure == measure and m.system in seconds
    ]
    name = HEADINGS.get(measure, measure)
    title = f"{set_name}, {level}: {name} against milliseconds a turn"
    return [page.scatter(title, "milliseconds, median", name, points)] if len(points) > 1 else []


def _by_depth(run: EvaluationRun, set_name: str, level: str, measure: str, systems: Sequence[str]) -> list[Markup]:
    names = [name for _, _, name in DEPTHS]
    values: dict[str, dict[str, float]] = {}
    for metric in run.metrics:
        if (metric.set, metric.level, metric.measure) == (set_name, level, measure):
            values.setdefault(metric.system, {})[metric.part.removeprefix("turn ")] = metric.mean
    present = [name for name in names if any(name in scores for scores in values.values())]
    series = [
        page.Line(system, [scores.get(name) for name in present], systems.index(system))
        for system, scores in list(values.items())[-MOST_LINES:]
    ]
    name = HEADINGS.get(measure, measure)
    title = f"{set_name}, {level}: {name} by turn of the conversation"
    return [page.lines(title, "turn", name, present, series)] if len(present) > 1 else []


def _parts(run: EvaluationRun) -> Table:
    measures = tuple(dict.fromkeys(metric.measure for metric in run.metrics))
    chosen = [measure for measure in PLOTTED if measure in measures] or list(measures)[:5]
    metrics_by_part = grouped(
        (metric for metric in run.metrics if metric.part != "all"), "set", "level", "system", "part"
    )
    rows = [
        [*key, *(shown(values.get(measure), intervals=True) for measure in chosen), next(iter(values.values())).n]
        for key, values in metrics_by_part.items()
    ]
    return Table(["set", "level", "system", "part", *headings(chosen), "n"], rows)
