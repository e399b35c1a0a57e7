"""Plots as plain SVG: bars with intervals, points in a plane, lines. No script, no font, nothing from outside.

Every text is escaped here. Colours are classes (`c0` to `c7`) that the page's style sheet gives a meaning for
light and dark screens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

COLOURS = 8
_ROW = 22
_LEFT = 230
_WIDTH = 760


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
    top = _ceiling(max((row.high for row in rows), default=1.0))
    height = 34 + _ROW * len(rows)
    room = _WIDTH - _LEFT - 60
    parts = [_grid(top, room, height)]
    for place, row in enumerate(rows):
        y = 30 + _ROW * place
        low, high, end = (_LEFT + room * max(0.0, value) / top for value in (row.low, row.high, row.value))
        middle = y + 8
        parts.append(
            Markup(
                '<text x="{}" y="{}" text-anchor="end">{}</text>'
                '<rect class="c{}" x="{}" y="{}" width="{:.1f}" height="14"><title>{}</title></rect>'
                '<path class="whisker" d="M{:.1f} {}H{:.1f}M{:.1f} {}v8M{:.1f} {}v8"/>'
                '<text x="{:.1f}" y="{}">{:.3f}</text>'
            ).format(
                _LEFT - 8,
                y + 12,
                _cut(row.label),
                row.colour % COLOURS,
                _LEFT,
                y + 1,
                max(0.0, end - _LEFT),
                f"{row.label}: {row.value:.3f} ({row.low:.3f} to {row.high:.3f})",
                low,
                middle,
                high,
                low,
                middle - 4,
                high,
                middle - 4,
                max(high, end) + 6,
                y + 12,
                row.value,
            )
        )
    return _svg(title, height, parts)


def scatter(title: str, x_name: str, y_name: str, points: Sequence[ChartPoint]) -> Markup:
    """Points with labels; the x axis is logarithmic, for seconds and costs."""
    height, left, bottom = 360, 60, 320
    xs = [math.log10(max(point.x, 1e-4)) for point in points] or [0.0]
    x_low, x_high = math.floor(min(xs)), max(math.ceil(max(xs)), math.floor(min(xs)) + 1)
    y_low, y_high = _range([point.y for point in points])
    parts = [_axes(left, bottom, x_name, y_name, y_low, y_high)]
    for power in range(x_low, x_high + 1):
        x = left + (_WIDTH - left - 180) * (power - x_low) / (x_high - x_low)
        parts.append(
            Markup(
                '<path class="grid" d="M{:.1f} 30V{}"/><text x="{:.1f}" y="{}" text-anchor="middle">{:g}</text>'
            ).format(x, bottom, x, bottom + 16, 10.0**power)
        )
    for point, log in zip(points, xs, strict=False):
        x = left + (_WIDTH - left - 180) * (log - x_low) / (x_high - x_low)
        y = bottom - (bottom - 30) * (point.y - y_low) / (y_high - y_low)
        parts.append(
            Markup(
                '<circle class="c{}" cx="{:.1f}" cy="{:.1f}" r="5"><title>{}</title></circle>'
                '<text x="{:.1f}" y="{:.1f}">{}</text>'
            ).format(
                point.colour % COLOURS, x, y, f"{point.label}: {point.x:g}, {point.y:.3f}", x + 8, y + 4, point.label
            )
        )
    return _svg(title, height, parts)


def lines(title: str, x_name: str, y_name: str, ticks: Sequence[str], series: Sequence[Line]) -> Markup:
    """Lines over named places, with a legend."""
    left, bottom = 60, 300
    height = bottom + 44 + 18 * len(series)
    y_low, y_high = _range([value for line in series for value in line.values if value is not None])
    step = (_WIDTH - left - 60) / max(1, len(ticks) - 1)
    parts = [_axes(left, bottom, x_name, y_name, y_low, y_high)]
    every = max(1, len(ticks) // 12)
    for place, tick in enumerate(ticks):
        if place % every == 0:
            parts.append(
                Markup('<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>').format(
                    left + step * place, bottom + 16, tick
                )
            )
    for row, line in enumerate(series):
        path, drawing = "", False
        for place, value in enumerate(line.values):
            if value is None:
                drawing = False
                continue
            y = bottom - (bottom - 30) * (value - y_low) / (y_high - y_low)
            path += f"{'L' if drawing else 'M'}{left + step * place:.1f} {y:.1f}"
            drawing = True
        parts.append(
            Markup('<path class="line s{}" d="{}"><title>{}</title></path>').format(
                line.colour % COLOURS, path, line.label
            )
        )
        y = bottom + 44 + 18 * row
        parts.append(
            Markup('<rect class="c{}" x="{}" y="{}" width="12" height="12"/><text x="{}" y="{}">{}</text>').format(
                line.colour % COLOURS, left, y - 10, left + 18, y, line.label
            )
        )
    return _svg(title, height, parts)


def _svg(title: str, height: int, parts: Sequence[Markup]) -> Markup:
    return (
        Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}"><text class="title" x="0" y="14">{}</text>').format(
            _WIDTH, height, title, title
        )
        + Markup("").join(parts)
        + Markup("</svg>")
    )


def _grid(top: float, room: float, height: int) -> Markup:
    parts = []
    for step in range(6):
        x = _LEFT + room * step / 5
        parts.append(Markup('<path class="grid" d="M{:.1f} 26V{}"/>').format(x, height))
        parts.append(
            Markup('<text class="tick" x="{:.1f}" y="24" text-anchor="middle">{:.3g}</text>').format(x, top * step / 5)
        )
    return Markup("").join(parts)


def _axes(left: int, bottom: int, x_name: str, y_name: str, y_low: float, y_high: float) -> Markup:
    parts = [
        Markup('<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>').format(_WIDTH, bottom + 32, x_name),
        Markup('<text class="tick" x="0" y="28">{}</text>').format(y_name),
    ]
    for step in range(6):
        y = bottom - (bottom - 30) * step / 5
        value = y_low + (y_high - y_low) * step / 5
        parts.append(
            Markup(
                '<path class="grid" d="M{} {:.1f}H{}"/>'
                '<text class="tick" x="{}" y="{:.1f}" text-anchor="end">{:.2f}</text>'
            ).format(left, y, _WIDTH - 40, left - 6, y + 4, value)
        )
    return Markup("").join(parts)


def _range(values: Sequence[float]) -> tuple[float, float]:
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    margin = max(0.02, 0.1 * (high - low))
    return max(0.0, low - margin) if low >= 0 else low - margin, high + margin


def _ceiling(value: float) -> float:
    if value <= 0 or not math.isfinite(value):
        return 1.0
    step = 10.0 ** math.floor(math.log10(value))
    return next(factor * step for factor in (1, 2, 2.5, 5, 10) if factor * step >= value)


def _cut(label: str) -> Markup:
    return escape(label if len(label) <= 34 else label[:33] + "…")
