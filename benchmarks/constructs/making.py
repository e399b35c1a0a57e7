"""Files put together from units, as many as it takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

Make = Callable[[int], bytes]

WORDS = "Words of the page stand here, some of them twice.\n\n"


def again(unit: str, size: int, before: str = WORDS, after: str = "") -> bytes:
    """A unit as often as it takes; `%d` in it is its number."""
    if "%d" not in unit:
        return (before + unit * max(1, size // len(unit)) + after).encode()
    return (before + "".join(unit.replace("%d", str(n)) for n in range(max(1, size // len(unit)))) + after).encode()


def both(opening: str, closing: str, size: int, before: str = WORDS) -> bytes:
    """Opened as often as closed: nested."""
    count = max(1, size // len(opening + closing))
    return (before + opening * count + "deep words" + closing * count).encode()


def indented(unit: str, size: int, step: str = "  ") -> bytes:
    """Each line indented further than the one before; so few that all of it comes to `size`."""
    count = max(1, int((2 * size / len(step)) ** 0.5))
    return (WORDS + "".join(step * n + unit for n in range(count))).encode()


def wide(opening: str, cell: str, closing: str, size: int, rule: str = "") -> bytes:
    """One row of a table with as many cells as it takes."""
    count = max(1, size // (len(cell) + len(rule)))
    below = closing + "|" + rule * count + "\n" if rule else closing
    return (WORDS + opening + cell * count + below).encode()


def repeated(unit: str, before: str = WORDS, after: str = "") -> Make:
    return partial(again, unit, before=before, after=after)
