"""Plots as SVG that stands in a page: bars with intervals, points in a plane, lines. Nothing from outside.

matplotlib draws and escapes. Texts stay texts in the page's own font, and ink is the page's (`currentColor`), so that
dark screens can read it too.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from text.extras import need_extra

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
