"""Small bar charts as SVG, drawn from numbers; every label is escaped."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup, escape

_ROW = 22
_LABEL = 190
_WIDTH = 560
_COLUMN = 120


def bars(values: Mapping[str, float], title: str) -> Markup:
    """Horizontal bars, one for each label in the order given, with its value at the end."""
    most = max(values.values(), default=0) or 1
    room = _WIDTH - _LABEL - 60
    parts = [_open(title, _WIDTH, _ROW * max(1, len(values)))]
    for row, (label, value) in enumerate(values.items()):
        top, length = row * _ROW, room * value / most
        parts.append(
            Markup(
                '<text x="{label_x}" y="{text_y}" text-anchor="end">{label}</text>'
                '<rect x="{left}" y="{top}" width="{length:.1f}" height="{height}" rx="2"/>'
                '<text x="{value_x:.1f}" y="{text_y}">{value}</text>'
            ).format(
                label_x=_LABEL - 8,
                text_y=top + 15,
                label=label,
                left=_LABEL,
                top=top + 3,
                length=max(length, 1.0),
                height=_ROW - 6,
                value_x=_LABEL + max(length, 1.0) + 6,
                value=_number(value),
            )
        )
    return Markup("").join([*parts, Markup("</svg>")])


def columns(values: Mapping[int, int], title: str) -> Markup:
    """A histogram over whole numbers, from the least to the largest, gaps shown as gaps."""
    if not values:
        return Markup("")
    least, largest = min(values), max(values)
    step = max(1, -(-(largest - least + 1) // 40))
    counts = [0] * (-(-(largest - least + 1) // step))
    for value, count in values.items():
        counts[(value - least) // step] += count
    most, width = max(counts) or 1, _WIDTH / len(counts)
    parts = [_open(title, _WIDTH, _COLUMN + 24)]
    every = max(1, len(counts) // 10)
    for place, count in enumerate(counts):
        height = _COLUMN * count / most
        parts.append(
            Markup(
                '<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}"><title>{told}</title></rect>'
            ).format(
                x=place * width + 1,
                y=_COLUMN - height,
                w=max(width - 2, 1.0),
                h=height,
                told=f"{_range(least + place * step, step)}: {count}",
            )
        )
        if place % every == 0:
            parts.append(
                Markup('<text x="{x:.1f}" y="{y}" text-anchor="middle">{label}</text>').format(
                    x=(place + 0.5) * width, y=_COLUMN + 16, label=least + place * step
                )
            )
    return Markup("").join([*parts, Markup("</svg>")])


def _open(title: str, width: int, height: int) -> Markup:
    return Markup('<svg viewBox="0 0 {width} {height}" role="img" aria-label="{title}">').format(
        width=width, height=height, title=escape(title)
    )


def _range(first: int, step: int) -> str:
    return str(first) if step == 1 else f"{first}–{first + step - 1}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
