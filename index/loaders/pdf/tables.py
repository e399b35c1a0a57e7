"""Find tables: those drawn with rules, and those set in columns without any.

A table becomes one line whose `rows` are its cells. What only looks like one is left as it is: stretched lines of text,
lists whose marks stand apart, formulas.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from index.loaders.pdf.glyphs import PageWord, Rectangle, TableCell, TextLine, around, line_of, lines_of, rows_of

# Rules whose ends are at most so many points apart meet.
_MEET = 3.0
_MOST_RULES = 1_000
_MOST_CELLS = 5_000
_MOST_ROWS = 200
_LEAST_ROWS = 2
# A table without rules: rows at most this many heights apart, whose cells are at most so many characters long.
_APART = 3.2
_LONG_CELL = 60
# Between the parts of one there may be so many heights.
_PARTS_APART = 4.0


def ruled(words: Sequence[PageWord], rules: Sequence[Rectangle]) -> tuple[list[PageWord], list[TextLine]]:
    """The words outside of ruled tables, and the tables, each as a line."""
    tables: list[TextLine] = []
    rest = list(words)
    for down, across in _grids(rules[:_MOST_RULES]):
        table = _filled(down, across, rest)
        if table is not None:
            tables.append(table)
            used = set(map(id, table.words))
            rest = [word for word in rest if id(word) not in used]
    return rest, tables


class _Rule(NamedTuple):
    """A rule along one direction: where it stands across it, and from where to where it runs."""

    at: float
    start: float
    end: float


def _edges_of(rules: Sequence[_Rule], crossing: Sequence[_Rule]) -> list[float]:
    """Where the cells of a grid part. A table without its outermost rules still ends where the crossing ones do."""
    at = _steps(rule.at for rule in rules)
    return _steps([*at, min(rule.start for rule in crossing), max(rule.end for rule in crossing)])


def _parted(rules: Sequence[_Rule], at: float, start: float, end: float) -> bool:
    """Whether a rule stands at this place between start and end."""
    middle = (start + end) / 2
    return any(abs(r.at - at) <= _MEET and r.start - _MEET <= middle <= r.end + _MEET for r in rules)


def _steps(values: Iterable[float]) -> list[float]:
    steps: list[float] = []
    for value in sorted(values):
        if not steps or value - steps[-1] > _MEET:
            steps.append(value)
    return steps


def _grids(rules: Sequence[Rectangle]) -> Iterator[tuple[list[_Rule], list[_Rule]]]:
    """Upright and level rules that touch each other, at least one of each."""
    groups: list[list[Rectangle]] = []
    for rule in sorted(rules, key=lambda rule: (rule[1], rule[0])):
        touching = [group for group in groups if any(_touch(rule, other) for other in group)]
        merged = [rule, *(other for group in touching for other in group)]
        groups = [group for group in groups if not any(group is other for other in touching)] + [merged]
    for group in groups:
        down = [_Rule((x0 + x1) / 2, y0, y1) for x0, y0, x1, y1 in group if x1 - x0 < y1 - y0]
        across = [_Rule((y0 + y1) / 2, x0, x1) for x0, y0, x1, y1 in group if x1 - x0 >= y1 - y0]
        if across and down:
            yield down, across


def _touch(first: Rectangle, other: Rectangle) -> bool:
    return (
        first[0] - _MEET <= other[2]
        and other[0] - _MEET <= first[2]
        and first[1] - _MEET <= other[3]
        and other[1] - _MEET <= first[3]
    )


def _filled(down: Sequence[_Rule], across: Sequence[_Rule], words: Sequence[PageWord]) -> TextLine | None:
    """The table in a grid; None where it parts no words."""
    xs, ys = _edges_of(down, across), _edges_of(across, down)
    if len(xs) < 2 or len(ys) < 3 or len(xs) * len(ys) > _MOST_CELLS:
        return None
    inside = [
        word
        for word in words
        if xs[0] - _MEET <= (word.x0 + word.x1) / 2 <= xs[-1] + _MEET
        and ys[0] - _MEET <= (word.y0 + word.y1) / 2 <= ys[-1] + _MEET
    ]
    held = defaultdict[tuple[int, int], list[PageWord]](list)
    for word in inside:
        row, column = _place(ys, (word.y0 + word.y1) / 2), _place(xs, (word.x0 + word.x1) / 2)
        while column and not _parted(down, xs[column], ys[row], ys[row + 1]):
            column -= 1
        while row and not _parted(across, ys[row], xs[column], xs[column + 1]):
            row -= 1
        held[row, column].append(word)
    used_columns = sorted({column for _, column in held})
    used_rows = sorted({row for row, _ in held})
    if len(used_columns) < 2 or len(used_rows) < _LEAST_ROWS:
        return None
    rows = [[_cell(held[row, column]) for column in used_columns] for row in used_rows]
    if max(len(cell.text) for row in rows for cell in row) > 20 * _LONG_CELL:
        return None  # a page in frames
    return _table(inside, (xs[0], ys[0], xs[-1], ys[-1]), rows)


def _place(steps: Sequence[float], value: float) -> int:
    """The interval that a value lies in."""
    return max(0, min(bisect_right(steps, value), len(steps) - 1) - 1)


def _cell(words: Sequence[PageWord]) -> TableCell:
    if not words:
        return TableCell("")
    lines = rows_of(lines_of(words))
    return TableCell(
        " ".join(line.text for row in lines for line in row), around((w.x0, w.y0, w.x1, w.y1) for w in words)
    )


def _table(words: Sequence[PageWord], box: Rectangle, rows: list[list[TableCell]]) -> TextLine:
    return TextLine(list(words), *box, median(word.height for word in words), rows)


def unruled(rows: Sequence[list[TextLine]]) -> list[list[TextLine]]:
    """The rows of a column, in which those that make up a table have become one row with one line."""
    groups: list[list[TextLine]] = []
    at = 0
    while at < len(rows):
        until = _run(rows, at)
        table = _aligned(rows[at:until]) if until - at >= _LEAST_ROWS else None
        if table is None:
            groups.append(rows[at])
            at += 1
        else:
            _append(groups, table)
            at = until
    return groups


def _append(groups: list[list[TextLine]], table: TextLine) -> None:
    """Add a table to the rows before it; what goes on with one, in its columns, becomes part of it.

    Between the parts a wider gap, or a row with the name of the part, may stand.
    """
    for between in (0, 1):
        if len(groups) <= between or (between and not _names_part(groups[-1], table)):
            break
        before = groups[-1 - between][0]
        near = table.y0 - before.y1 < (_PARTS_APART + 1.6 * between) * table.height
        columns = _matched(before, table)
        if before.rows and near and columns:
            name = [[_cell(line.words) for line in groups[-1]] + [TableCell("")] * (len(before.rows[0]) - 1)] * between
            rows = [
                [row[columns.index(n)] if n in columns else TableCell("") for n in range(len(before.rows[0]))]
                for row in table.rows
            ]
            words = [*before.words, *(word for line in groups[-1] * between for word in line.words), *table.words]
            del groups[len(groups) - 1 - between :]
            groups.append([_table(words, line_of(words).box, [*before.rows, *name, *rows])])
            return
    groups.append([table])


def _names_part(row: Sequence[TextLine], table: TextLine) -> bool:
    """Whether a row between two parts of a table names the second."""
    return len(row) == 1 and not row[0].rows and len(row[0].text) <= _LONG_CELL and row[0].x0 < table.x1


def _matched(before: TextLine, table: TextLine) -> list[int]:
    """For each column of a table that of the one above which it goes on with; nothing where one has none."""
    spans = [_span([row[n] for row in before.rows]) for n in range(len(before.rows[0] if before.rows else ()))]
    matched: list[int] = []
    for n in range(len(table.rows[0])):
        x0, x1 = _span([row[n] for row in table.rows])
        own = [at for at, (left, right) in enumerate(spans) if left <= x1 and x0 <= right]
        if len(own) != 1 or own[0] in matched:
            return []
        matched += own
    return matched if len(matched) > 1 and 2 * len(matched) > len(spans) else []


def _span(cells: Sequence[TableCell]) -> tuple[float, float]:
    boxes = [cell.box for cell in cells if cell.box]
    return min(box[0] for box in boxes), max(box[2] for box in boxes)


def _run(rows: Sequence[list[TextLine]], first: int) -> int:
    """Where rows end that have cells beside each other and stand below each other, `first` on."""
    if not _cells(rows[first]) or _is_caption(rows[first]):
        return first
    last = first + 1
    for at, (above, row) in enumerate(pairwise(rows[first : first + _MOST_ROWS]), first + 1):
        apart = row[0].y0 - above[0].y1 > _APART * above[0].height - above[0].height
        if apart or any(line.rows for line in row) or _is_caption(row):
            break
        if _cells(row):
            last = at + 1
        elif len(row) > 1 or at > last or len(row[0].text) > _LONG_CELL:
            break  # but a row with one cell filled is of a table that goes on below it
    return last


def _is_caption(row: Sequence[TextLine]) -> bool:
    """Whether a row, whose blanks may be stretched, begins the caption of a table or figure."""
    return _CAPTION.match(" ".join(line.text for line in row)) is not None


def _cells(row: Sequence[TextLine]) -> bool:
    return len(row) > 1 and all(len(line.text) <= _LONG_CELL and not line.rows for line in row)


def _aligned(rows: Sequence[list[TextLine]]) -> TextLine | None:
    """The table that these rows make up, or None where their cells do not stand below each other."""
    many = [row for row in rows if len(row) > 1]
    if len(many) < max(2, len(rows) / 2):
        return None
    spans: list[list[float]] = []
    for line in sorted((line for row in many for line in row), key=lambda line: line.x0):
        if spans and line.x0 <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], line.x1)
        else:
            spans.append([line.x0, line.x1])
    if len(spans) < 2:
        return None
    filled = sum(len(row) for row in many) / (len(many) * len(spans))
    if len(spans) > max(len(row) for row in many) + 1 or filled < 0.5:
        return None
    table: list[list[TableCell]] = []
    for row in rows:
        held: list[list[TextLine]] = [[] for _ in spans]
        for line in row:
            at = next((n for n, span in enumerate(spans) if line.x0 <= span[1] and line.x1 >= span[0]), None)
            if at is None or (
                len(row) == 1 and row is not rows[0] and at + 1 < len(spans) and line.x1 > spans[at + 1][0]
            ):
                return None
            held[at].append(line)
        table.append([_cell([word for line in cell for word in line.words]) for cell in held])
    if len(spans) == 2 and all(not row[0].text or _ITEM.fullmatch(row[0].text) for row in table):
        return None  # a list
    if [bool(_EQUATION.fullmatch(row[-1].text)) for row in table if row[-1].text] == [True]:
        return None  # a formula with its number
    if len(rows) <= _FORMULA_ROWS and any("=" in cell.text or _SUM.search(cell.text) for row in table for cell in row):
        return None
    if _stretched(many):
        return None
    words = [word for row in rows for line in row for word in line.words]
    return _table(words, line_of(words).box, table)


def _stretched(rows: Sequence[list[TextLine]]) -> bool:
    """Whether rows are rather lines of text with wide blanks, or numbered ones."""
    if all(len(row) == 2 and len(row[0].text) <= 3 and row[1].text[:1].isalpha() for row in rows) or _justified(rows):
        return True
    height = median(row[0].height for row in rows)
    gap = median(min(right.x0 - left.x1 for left, right in pairwise(row)) for row in rows)
    width = max(row[-1].x1 for row in rows) - min(row[0].x0 for row in rows)
    filled = median(sum(line.width for line in row) / width for row in rows)
    return filled > 0.75 and gap < 3 * height and max(len(line.words) for row in rows for line in row) > 4


def _justified(rows: Sequence[list[TextLine]]) -> bool:
    """Tell lines of justified prose, all blanks of which are equally wide, from rows of a table.

    Between the cells of a table they are wider than within, or as wide by chance, and then its words stand in columns.
    """
    words = [word.text.strip(_MARKS) for row in rows for line in row for word in line.words]
    prose = sum(word.isalpha() and word[0].islower() for word in words if word)
    if prose < _PROSE * len(words):
        return False
    spreads = list[float]()
    for row in rows:
        placed = [word for line in row for word in line.words]
        gaps = sorted(right.x0 - left.x1 for left, right in pairwise(placed))
        if len(gaps) > 1:
            spreads.append(gaps[-1] / max(0.3, gaps[len(gaps) // 4]))
    return bool(spreads) and median(spreads) <= _EVEN and _below(rows) < _ALIGNED


def _below(rows: Sequence[list[TextLine]]) -> float:
    """The share of runs that begin, or end, just below one of the row above; the first of a row says nothing."""
    matches = total = 0
    for above, row in pairwise(rows):
        total += len(row) - 1
        for n, line in enumerate(row[1:], 1):
            begins = any(abs(line.x0 - other.x0) < _MEET for other in above[1:])
            # Every stretched line ends where the one above it does.
            matches += begins or any(n + 1 < len(row) and abs(line.x1 - other.x1) < _MEET for other in above[:-1])
    return matches / total if total else 0.0


_MARKS = ".,;:!?()[]\"'“”‘’"
_PROSE = 0.5
_EVEN = 2.0
_ALIGNED = 0.6
_FORMULA_ROWS = 3
_SUM = re.compile(r"[∑∏∫]")
_EQUATION = re.compile(r"\(\d{1,3}[a-z]?\)")
_CAPTION = re.compile(r"(?i)(?:table|figure|fig\.)\s+\d{1,3}\s*[:.]\s")
_ITEM = re.compile(r"[•◦▪‣∙●○■·–—*.-]|\(?(?:\d{1,2}|[a-z]|[ivx]{1,4})[.)]")
