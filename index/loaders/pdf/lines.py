"""From words to lines: runs of words that stand side by side, cut where a column's or a table's gap is.

Which lines belong to which column is decided in `index.loaders.pdf.columns`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from index.loaders.pdf.glyphs import PageWord, Rectangle

# Words further apart than this many heights do not belong to one run of text.
_GAP = 0.9
# Words drawn apart from each other are joined where they are at most this near.
_NEAR = 0.7
# With more of them, a page is rather a drawing, and is left as it is drawn.
_MOST = 5000


@dataclass(slots=True)
class TextLine:
    """Words side by side, from left to right; `rows` are the cells where a whole table stands in a line's place."""

    words: list[PageWord]
    x0: float
    y0: float
    x1: float
    y1: float
    height: float
    rows: list[list[TableCell]] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)

    @property
    def bold(self) -> bool:
        return sum(len(word.text) for word in self.words if word.bold) * 2 > sum(len(word.text) for word in self.words)

    @property
    def middle(self) -> float:
        return (self.y0 + self.y1) / 2

    @property
    def width(self) -> float:
        return self.x1 - self.x0

    @property
    def box(self) -> Rectangle:
        return self.x0, self.y0, self.x1, self.y1


@dataclass(slots=True)
class TableCell:
    """A cell of a table: its words as text, and where they stand; empty ones have no box."""

    text: str
    box: Rectangle | None = None


def line_of(words: Sequence[PageWord]) -> TextLine:
    """One line of these words, which are one or more."""
    ordered = sorted(words, key=lambda word: word.x0)
    # Signs of formulas have boxes of their own kind, and some fonts have larger ones for letters that reach down.
    heights = sorted(word.height for word in ordered if word.text[:2].isalpha()) or sorted(w.height for w in ordered)
    box = around((word.x0, word.y0, word.x1, word.y1) for word in ordered)
    return TextLine(ordered, *box, heights[len(heights) * 4 // 5])


def around(boxes: Iterable[Rectangle]) -> Rectangle:
    """The smallest rectangle that holds all of these, which are one or more."""
    x0, y0, x1, y1 = zip(*boxes, strict=True)
    return min(x0), min(y0), max(x1), max(y1)


def overlap(a0: float, a1: float, b0: float, b1: float) -> float:
    """How much of the shorter of two intervals lies in the other, 0 to 1."""
    return max(0.0, min(a1, b1) - max(a0, b0)) / max(0.1, min(a1 - a0, b1 - b0))


def lines_of(words: Iterable[PageWord]) -> list[TextLine]:
    """All runs of text, from the top of the page down."""
    runs: list[list[PageWord]] = []
    for word in words:
        if runs and _follows(runs[-1][-1], word):
            runs[-1].append(word)
        else:
            runs.append([word])
    found = [line_of(run) for run in runs]
    return found if len(found) > _MOST else sorted(_joined(found), key=lambda line: (line.y0, line.x0))


def _follows(last: PageWord, word: PageWord) -> bool:
    height = min(last.height, word.height)
    if overlap(last.y0, last.y1, word.y0, word.y1) < 0.5:
        return False
    return -0.5 * height <= word.x0 - last.x1 <= _GAP * max(last.height, word.height)


def _joined(lines: list[TextLine]) -> list[TextLine]:
    """Runs that the file draws apart though they stand side by side, such as a word in another font."""
    lines.sort(key=lambda line: (line.x0, line.y0))
    by_band: dict[int, list[TextLine]] = {}
    kept: list[TextLine] = []
    for line in lines:
        best = None
        for band in range(int(line.y0 // 20) - 1, int(line.y1 // 20) + 2):
            for other in by_band.get(band, ()):
                gap = line.x0 - other.x1
                height = max(other.height, line.height)
                if -0.5 * height <= gap <= _NEAR * height and overlap(other.y0, other.y1, line.y0, line.y1) >= 0.6:
                    best = other
        if best is None:
            kept.append(line)
            by_band.setdefault(int(line.y0 // 20), []).append(line)
            continue
        whole = line_of([*best.words, *line.words])
        best.words, best.x0, best.y0, best.x1, best.y1, best.height = (
            whole.words, whole.x0, whole.y0, whole.x1, whole.y1, whole.height,
        )  # fmt: skip
    return kept


def rows_of(lines: Sequence[TextLine]) -> list[list[TextLine]]:
    """Lines that stand beside each other, from the top down and from left to right."""
    rows: list[list[TextLine]] = []
    for line in sorted(lines, key=lambda line: (line.middle, line.x0)):
        if (
            rows
            and overlap(rows[-1][0].y0, rows[-1][0].y1, line.y0, line.y1) >= 0.5
            and all(line.x0 >= other.x1 - 1 or line.x1 <= other.x0 + 1 for other in rows[-1])
        ):
            rows[-1].append(line)
        else:
            rows.append([line])
    return [sorted(row, key=lambda line: line.x0) for row in rows]
