"""Regions: what each part of the pages is, in reading order, over all pages of a file.

Running heads and feet repeat from page to page, headings stand out by their font or number, captions and footnotes by
how they begin, references by their heading. Anything else is text and is kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Literal, TypeAlias

from index.loaders.pdf.columns import (
    CAPTION,
    FOOTNOTE,
    Body,
    Column,
    columns_of,
    gutter_of,
    running_lines,
    usual_gutter,
)
from index.loaders.pdf.glyphs import (
    PageWord,
    PageWords,
    Rectangle,
    TableCell,
    TextLine,
    around,
    commonest,
    line_of,
    lines_of,
    rows_of,
)

# Rules whose ends are at most so many points apart meet.
_MEET = 3.0
_MOST_RULES = 1_000
_MOST_CELLS = 5_000
_MOST_ROWS = 200
_LEAST_ROWS = 2
# A table without rules: rows at most this many heights apart, whose cells are at most so many characters long.
_APART = 3.2
_LONG_CELL = 60


def ruled(words: Sequence[PageWord], rules: Sequence[Rectangle]) -> tuple[list[PageWord], list[TextLine]]:
    """The words outside of ruled tables, and the tables, each as a line."""
    tables: list[TextLine] = []
    rest = list(words)
    for grid in _grids(rules[:_MOST_RULES]):
        table = _filled(grid, rest)
        if table is not None:
            line, used = table
            tables.append(line)
            rest = [word for word in rest if id(word) not in used]
    return rest, tables


class _Grid:
    """Rules that meet: where they run, and which of them parts two neighbouring cells."""

    def __init__(self, across: list[Rectangle], down: list[Rectangle]) -> None:
        self._down = down
        self._across = across
        self.xs = _steps((rule[0] + rule[2]) / 2 for rule in down)
        self.ys = _steps((rule[1] + rule[3]) / 2 for rule in across)
        # A table whose outermost rules are left out on the sides still ends where its rules do.
        if across:
            self.xs = _steps([*self.xs, min(rule[0] for rule in across), max(rule[2] for rule in across)])
        if down:
            self.ys = _steps([*self.ys, min(rule[1] for rule in down), max(rule[3] for rule in down)])

    def parted(self, x: float, y0: float, y1: float) -> bool:
        """Whether an upright rule at x stands between y0 and y1."""
        middle = (y0 + y1) / 2
        return any(abs((r[0] + r[2]) / 2 - x) <= _MEET and r[1] - _MEET <= middle <= r[3] + _MEET for r in self._down)

    def floored(self, y: float, x0: float, x1: float) -> bool:
        """Whether a level rule at y lies between x0 and x1."""
        middle = (x0 + x1) / 2
        return any(abs((r[1] + r[3]) / 2 - y) <= _MEET and r[0] - _MEET <= middle <= r[2] + _MEET for r in self._across)


def _steps(values: Iterable[float]) -> list[float]:
    steps: list[float] = []
    for value in sorted(values):
        if not steps or value - steps[-1] > _MEET:
            steps.append(value)
    return steps


def _grids(rules: Sequence[Rectangle]) -> list[_Grid]:
    """Groups of rules that touch each other, with at least one upright rule within."""
    groups: list[list[Rectangle]] = []
    for rule in sorted(rules, key=lambda rule: (rule[1], rule[0])):
        touching = [group for group in groups if any(_touch(rule, other) for other in group)]
        merged = [rule, *(other for group in touching for other in group)]
        groups = [group for group in groups if not any(group is other for other in touching)] + [merged]
    grids = []
    for group in groups:
        across = [rule for rule in group if rule[2] - rule[0] >= rule[3] - rule[1]]
        down = [rule for rule in group if rule[2] - rule[0] < rule[3] - rule[1]]
        grid = _Grid(across, down)
        if across and down and len(grid.xs) * len(grid.ys) <= _MOST_CELLS:
            grids.append(grid)
    return grids


def _touch(first: Rectangle, other: Rectangle) -> bool:
    return (
        first[0] - _MEET <= other[2]
        and other[0] - _MEET <= first[2]
        and first[1] - _MEET <= other[3]
        and other[1] - _MEET <= first[3]
    )


def _filled(grid: _Grid, words: Sequence[PageWord]) -> tuple[TextLine, set[int]] | None:
    """The table in a grid and the ids of its words; None where it parts no words."""
    xs, ys = grid.xs, grid.ys
    if len(xs) < 2 or len(ys) < 3 or (len(xs) < 3 and len(ys) < 3):
        return None
    inside = [
        word
        for word in words
        if xs[0] - _MEET <= (word.x0 + word.x1) / 2 <= xs[-1] + _MEET
        and ys[0] - _MEET <= (word.y0 + word.y1) / 2 <= ys[-1] + _MEET
    ]
    held: dict[tuple[int, int], list[PageWord]] = {}
    for word in inside:
        row, column = _place(ys, (word.y0 + word.y1) / 2), _place(xs, (word.x0 + word.x1) / 2)
        while column and not grid.parted(xs[column], ys[row], ys[row + 1]):
            column -= 1
        while row and not grid.floored(ys[row], xs[column], xs[column + 1]):
            row -= 1
        held.setdefault((row, column), []).append(word)
    used_columns = sorted({column for _, column in held})
    used_rows = sorted({row for row, _ in held})
    if len(used_columns) < 2 or len(used_rows) < _LEAST_ROWS:
        return None
    rows = [[_cell(held.get((row, column), [])) for column in used_columns] for row in used_rows]
    if max(len(cell.text) for row in rows for cell in row) > 20 * _LONG_CELL:
        return None  # a page in frames
    return _table(inside, (xs[0], ys[0], xs[-1], ys[-1]), rows), {id(word) for word in inside}


def _place(steps: Sequence[float], value: float) -> int:
    """The interval that a value lies in."""
    for n in range(len(steps) - 2, 0, -1):
        if value >= steps[n]:
            return n
    return 0


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
            groups.append([table])
            at = until
    return groups


def _run(rows: Sequence[list[TextLine]], first: int) -> int:
    """Where rows end that have cells beside each other and stand below each other, `first` on."""
    if not _cells(rows[first]):
        return first
    at = first + 1
    last = at
    while at < min(len(rows), first + _MOST_ROWS):
        above, row = rows[at - 1], rows[at]
        if row[0].y0 - above[0].y1 > _APART * above[0].height - above[0].height or any(line.rows for line in row):
            break
        if _cells(row):
            last = at + 1
        elif len(row) == 1 and at - last < 1 and len(row[0].text) <= _LONG_CELL and at + 1 < len(rows):
            # A row with one cell filled, if the table goes on below it.
            pass
        else:
            break
        at += 1
    return last


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
    words = [word for row in rows for line in row for word in line.words]
    if _stretched(many):
        return None
    return _table(words, line_of(words).box, table)


def _stretched(rows: Sequence[list[TextLine]]) -> bool:
    """Whether rows are rather lines of text with wide blanks, or numbered ones."""
    if all(len(row) == 2 and len(row[0].text) <= 3 and row[1].text[:1].isalpha() for row in rows):
        return True
    height = median(row[0].height for row in rows)
    gap = median(min(right.x0 - left.x1 for left, right in pairwise(row)) for row in rows)
    width = max(row[-1].x1 for row in rows) - min(row[0].x0 for row in rows)
    filled = median(sum(line.width for line in row) / width for row in rows)
    return filled > 0.75 and gap < 3 * height and max(len(line.words) for row in rows for line in row) > 4


Kind: TypeAlias = Literal[
    "title", "text", "figure", "figure_caption", "table", "table_caption", "header", "footer", "reference", "footnote",
    "other",
]  # fmt: skip

DROPPED: frozenset[Kind] = frozenset({"header", "footer", "reference", "figure"})
"""Kinds that are no evidence."""

_NUMBERED = re.compile(
    r"(?:(?:section|chapter|appendix)\s+)?((?:\d{1,2}|[A-Z])(?:\.\d{1,2}){0,3})[.:)]?\s+(?=\S*[^\W\d_])", re.I
)
_LABEL = re.compile(r"^(?:[\dA-Z][\d.]*\s+)")
_NUMBER = re.compile(r"(?:\d{1,2}|[A-Z])(?:\.\d{1,2}){0,3}\.?|[IVX]{1,5}\.")
_ROMAN = re.compile(r"[IVX]{1,5}\.\s+(?=[A-Z])")
_NAMED = re.compile(
    r"(?i)(abstract|introduction|conclusions?|discussion|acknowledge?ments?|references|bibliography|related work"
    r"|summary|background|results|methods?|appendix|contents|evaluation|experiments?)\W*"
)
REFERENCES = re.compile(r"(?i)(?:[\dIVX]{1,4}[.:]?\s+)?(?:references|bibliography|literature cited|works cited)\W*")
_INTRODUCTION = re.compile(r"(?i)(?:1|I)?[.:]?\s*introduction\W*")
_ABSTRACT = re.compile(r"(?i)abstract\W*")
_BULLET = re.compile(r"(?:[•◦▪‣∙●○■·–—*-]|\(?(?:\d{1,2}|[a-z]|[ivx]{1,4})[.)])\s+\S")
_ENTRY_YEAR = re.compile(r"\b(?:1[89]|20)\d\d[a-z]?\b")
_ENDED = re.compile(r"[.!?:;…][\"'”’)\]]*$")
_LONGEST_HEADING = 160


@dataclass(slots=True)
class Region:
    """A stretch of a page of one kind. `goes_on` marks text that continues the region of text before it."""

    kind: Kind
    page: int
    lines: list[TextLine]
    box: Rectangle
    level: int = 0
    goes_on: bool = False
    rows: list[list[TableCell]] = field(default_factory=list)
    opens: bool = False

    @property
    def text(self) -> str:
        return " ".join(line.text for line in self.lines)


def heading_key(words: str) -> str:
    """Words of a heading without its number, to compare them by."""
    return _LABEL.sub("", words).casefold().replace(" ", "")


def regions_of(pages: Sequence[PageWords], named: Set[tuple[int, str]] = frozenset()) -> list[Region]:
    """The regions of all pages in reading order; `named` are the pages and `heading_key`s of the file's own outline."""
    every: list[list[TextLine]] = []
    tables: list[list[TextLine]] = []
    for page in pages:
        rest, table_lines = ruled(page.words, page.rules)
        every.append(lines_of(rest))
        tables.append(table_lines)
    body = Body(every, named)
    running = running_lines(every, pages, body)
    inside = [[line for line in lines if id(line) not in running] for lines in every]
    flow = [[*lines, *table] for lines, table in zip(inside, tables, strict=True)]
    gutters = list(map(gutter_of, flow))
    usual = usual_gutter(gutters)
    regions: list[Region] = []
    for number, page in enumerate(pages):
        edge = [line for line in every[number] if id(line) in running]
        regions += _edges(edge, number + 1, page, top=True)
        regions += _page(columns_of(flow[number], gutters[number], usual), number + 1, page, body)
        regions += _edges(edge, number + 1, page, top=False)
        if page.aside:
            aside = lines_of(page.aside)
            regions.append(_region("other", number + 1, aside))
    _titled(regions)
    _without_references(regions)
    return list(_floated(regions))


@dataclass(frozen=True, slots=True)
class _Shape:
    """A column's edges, and the way from line to line."""

    left: float
    right: float
    leading: float


def _region(kind: Kind, page: int, lines: list[TextLine]) -> Region:
    return Region(kind, page, lines, around(line.box for line in lines))


def _edges(lines: list[TextLine], number: int, page: PageWords, *, top: bool) -> list[Region]:
    own = [line for line in lines if (line.middle < page.height / 2) == top]
    return [_region("header" if top else "footer", number, own)] if own else []


def _page(columns: Sequence[Column], number: int, page: PageWords, body: Body) -> Iterator[Region]:
    for at, image in enumerate(page.images):
        if at < 50 and _picture(image, page):
            yield Region("figure", number, [], image)
    for column in columns:
        first = True
        for region in _column(unruled(list(map(_numbered_together, column.rows))), column, number, page, body):
            if first and region.kind == "text":
                region.opens, first = True, False
            first = first and region.kind != "title"
            yield region


def _picture(image: Rectangle, page: PageWords) -> bool:
    """Whether a picture is a figure: neither an ornament nor the whole page."""
    area = (image[2] - image[0]) * (image[3] - image[1])
    return 0.005 * page.width * page.height < area < 0.8 * page.width * page.height


def _column(
    rows: Sequence[list[TextLine]], column: Column, number: int, page: PageWords, body: Body
) -> Iterator[Region]:
    """Paragraphs, headings, captions, footnotes and tables, from the top of a column down."""
    lines = [line for row in rows for line in row]
    plain = [line for line in lines if not line.rows]
    left = commonest(Counter(float(round(line.x0)) for line in plain))
    right = sorted(line.x1 for line in plain)[int(len(plain) * 0.9)] if plain else column.x1
    if len(plain) > 5:
        right = min(right, max(line.x1 for line in plain))
    steps = [below.middle - above.middle for above, below in pairwise(plain)]
    leading = median([step for step in steps if step > 0.5 * body.height] or [1.2 * body.height])
    shape = _Shape(left, right, leading)
    small = _footnotes(plain, page, body)
    gathered: list[TextLine] = []
    kind: Kind = "text"
    for n, line in enumerate(lines):
        if line.rows:
            if gathered:
                yield _done(kind, number, gathered, body)
                gathered = []
            kind = "text"
            yield Region("table", number, [line], line.box, rows=line.rows)
            continue
        above = gathered[-1] if gathered else None
        if id(line) in small:
            own: Kind = "footnote"
        elif (number, heading_key(line.text)) in body.named:
            own = "title"
        else:
            own = _kind(line, lines[n - 1] if n else None, lines[n + 1] if n + 1 < len(lines) else None, body, shape)
        if above is not None and _breaks(kind, own, above, line, shape):
            yield _done(kind, number, gathered, body)
            gathered = []
        if not gathered:
            kind = own
        gathered.append(line)
    if gathered:
        yield _done(kind, number, gathered, body)


def _numbered_together(row: list[TextLine]) -> list[TextLine]:
    """A row in which a heading's number, set apart from it, has become one line with it."""
    if len(row) == 2 and _NUMBER.fullmatch(row[0].text) and row[1].text[:1].isalpha():
        return [line_of([*row[0].words, *row[1].words])]
    return row


def _footnotes(lines: Sequence[TextLine], page: PageWords, body: Body) -> set[int]:
    """The ids of the lines in small print at the foot of a column, from the first that begins as a footnote."""
    small: list[TextLine] = []
    for line in reversed(lines):
        if line.height > 0.93 * body.height or line.y0 < 0.4 * page.height:
            break
        small.insert(0, line)
    for n, line in enumerate(small):
        if FOOTNOTE.match(line.text) and not CAPTION.match(line.text):
            return {id(line) for line in small[n:]}
    return set()


def _kind(line: TextLine, above: TextLine | None, below: TextLine | None, body: Body, shape: _Shape) -> Kind:
    left, right, leading = shape.left, shape.right, shape.leading
    text = line.text
    caption = CAPTION.match(text)
    if caption:
        return "table_caption" if text[:3].lower() == "tab" else "figure_caption"
    if len(text) > _LONGEST_HEADING or not any(map(str.isalpha, text)):
        return "text"
    gap = above is None or line.middle - above.middle > 1.2 * leading
    numbered = (_NUMBERED.match(text) or _ROMAN.match(text)) and not _ENDED.search(text)
    full = line.x1 > right - 0.06 * (right - left)
    titled = above is not None and above.height > body.large
    if (
        line.height > body.large
        and re.search(r"[^\W\d_]{3}", text)
        and (gap or titled or line.height > 1.2 * body.large)
    ):
        return "title"
    if line.bold and not body.bold and all(word.bold for word in line.words if any(map(str.isalpha, word.text))):
        return "title" if gap or numbered or (above is not None and above.bold) or not full else "text"
    if _NAMED.fullmatch(text) or (numbered and _NAMED.fullmatch(_NUMBERED.sub("", text))):
        return "title"
    apart = below is None or below.middle - line.middle > 1.05 * leading
    if numbered and gap and apart and not full and text[-1].isalpha() and len(text) <= 80 and not _sentence(text):
        return "title"
    return "text"


def _broken(before: str, after: str) -> bool:
    """Whether a word goes on from one line to the next."""
    return before.endswith("-") and before[-2:-1].isalpha() and after[:1].islower()


def _sentence(text: str) -> bool:
    """Whether words that look like a heading by their place read like a list's item: mostly small words."""
    words = [word for word in text.split()[1:] if word[0].isalpha()]
    return len(words) > 8 or not words or words[0][0].islower()


def _breaks(kind: Kind, own: Kind, above: TextLine, line: TextLine, shape: _Shape) -> bool:
    """Whether a region ends between two lines."""
    left, right, leading = shape.left, shape.right, shape.leading
    step = line.middle - above.middle
    beside = step < 0.5 * min(line.height, above.height)
    if own != kind and not (kind in ("figure_caption", "table_caption", "footnote") and own == "text"):
        return True
    if beside or _broken(above.text, line.text):
        return False
    if step > 1.45 * max(leading, 1.0) and step > 1.25 * line.height:
        return True
    if kind in ("figure_caption", "table_caption"):
        return own == kind or line.height > 1.1 * above.height
    if kind == "title":
        # Two headings below each other, or one that goes on in its second line.
        return bool(_NUMBERED.match(line.text) or _ABSTRACT.fullmatch(above.text)) or (
            abs(line.height - above.height) > 0.12 * above.height
        )
    if kind == "footnote":
        return bool(FOOTNOTE.match(line.text)) and line.x0 >= left - 1
    if abs(line.height - above.height) > 0.25 * max(line.height, above.height):
        return step > 1.1 * leading
    indent = line.x0 - above.x0
    width = max(1.0, right - left)
    if _BULLET.match(line.text) and (indent <= 2 or above.x1 < right - 0.1 * width):
        return True
    if 0.6 * line.height < indent < 0.25 * width and abs(above.x0 - left) < 2 and line.x0 - left > 0.6 * line.height:
        return bool(_ENDED.search(above.text)) or above.x1 < right - 0.08 * width
    return above.x1 < right - 0.2 * width and bool(_ENDED.search(above.text)) and line.text[:1].isupper()


def _done(kind: Kind, number: int, lines: list[TextLine], body: Body) -> Region:
    region = _region(kind, number, list(lines))
    if kind == "title":
        text = region.text
        if len(text) > _LONGEST_HEADING * 1.5 or len(lines) > 4 or not re.search(r"[^\W\d_]{2}", text):
            region.kind = "text"
        else:
            region.level = _level(region, body)
    return region


def _level(region: Region, body: Body) -> int:
    """1 for sections; deeper by their number's parts; 0 for what is set much larger than the text."""
    numbered = _NUMBERED.match(region.text)
    if numbered:
        return numbered.group(1).count(".") + 1
    large = median(line.height for line in region.lines) > body.large
    return 1 if large or _NAMED.fullmatch(region.text) else 2


def _names(text: str) -> bool:
    """Whether words may be a document's title."""
    return " " in text and "@" not in text and not _NAMED.fullmatch(text)


def _opens_text(text: str) -> bool:
    return bool(_ABSTRACT.fullmatch(text) or _INTRODUCTION.fullmatch(text))


def _titled(regions: Sequence[Region]) -> None:
    """Give level 0 to the document's title: the largest heading of the first page, if it stands out."""
    first = [region for region in regions if region.page == 1 and region.kind == "title" and _names(region.text)]
    heights = [median(line.height for line in region.lines) for region in first]
    if heights:
        at = heights.index(max(heights))
        others = [median(line.height for line in r.lines) for r in regions if r.kind == "title" and r is not first[at]]
        if not others or heights[at] > 1.05 * max(others) or (heights[at] >= max(others) and first[at] is regions[0]):
            first[at].level = 0
            opening = next((n for n, r in enumerate(regions) if r.kind == "title" and _opens_text(r.text)), 0)
            for region in regions[:opening]:
                if region.kind == "title" and region.level and region.page == 1:
                    region.kind = "text"  # who wrote it


def _without_references(regions: list[Region]) -> None:
    """Mark what stands below a heading "References" until the next heading that is none of the list's own."""
    inside = False
    level = 0
    for at, region in enumerate(regions):
        if region.kind == "title":
            if REFERENCES.fullmatch(region.text):
                inside, level = True, region.level
                region.kind = "reference"
                continue
            if inside and region.level <= max(1, level) and not _entry(region.text):
                inside = False
        elif region.kind == "text" and region.lines and REFERENCES.fullmatch(region.lines[0].text):
            inside, level = True, 1
        beside = regions[max(0, at - 1) : at + 2]
        # A list whose years stand below each other looks like a table; a real one has its caption beside it.
        listed = region.kind == "table" and not any("caption" in other.kind for other in beside)
        if inside and (listed or region.kind in ("text", "title", "footnote", "other")):
            region.kind = "reference"


def _entry(text: str) -> bool:
    return bool(_ENTRY_YEAR.search(text)) or text.count(",") > 1


def _floated(regions: Sequence[Region]) -> Iterator[Region]:
    """The regions with text that goes on in the next column or page put behind what it continues."""
    waiting: list[Region] = []
    last: Region | None = None
    for region in regions:
        if region.kind == "text":
            if last is not None and (
                _broken(last.lines[-1].text, region.lines[0].text)
                or ((region.opens or waiting) and _goes_on(last, region))
            ):
                region.goes_on = True
                yield region
                last = region
                continue
            yield from waiting
            waiting = []
            yield region
            last = region
        elif region.kind in ("title", "reference"):
            yield from waiting
            waiting = []
            yield region
            last = None
        elif last is not None:
            waiting.append(region)
        else:
            yield region
    yield from waiting


def _goes_on(last: Region, region: Region) -> bool:
    """Whether a paragraph was cut by the end of its column."""
    before, after = last.lines[-1].text, region.lines[0].text
    if _ENDED.search(before) or _BULLET.match(after) or last.lines[-1].height > 1.2 * region.lines[0].height:
        return False
    return not after[:1].isupper() or before.endswith(("-", ",")) or _full(last)


def _full(region: Region) -> bool:
    """Whether the last line of a region reaches its right edge, so that the next word had no room."""
    return region.lines[-1].x1 > region.box[2] - 0.05 * (region.box[2] - region.box[0]) and len(region.lines) > 1
