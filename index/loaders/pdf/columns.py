"""The order in which a page is read: bands across the page, columns within a band, lines down a column.

A gutter is a strip that hardly any line crosses, with running text on both sides. Lines that cross it cut the page into
bands. Text side by side that is not running text (a table's cells) stays together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from statistics import median
from typing import TypeAlias

from index.loaders.pdf.glyphs import PageWords, TextLine, commonest, line_of, rows_of

_LEAST_ROWS = 3
MOST_LINES = 2500
"""A page with more is read as it is drawn: it is rather a drawing."""
_STEP = 2.0
_WIDEST = 20_000.0  # points; what is wider is no page
# A column holds running text where its lines fill this share of it, or have so many words and stand so closely.
_FILLED = 0.6
_WORDS = 3
_CLOSE = 1.5
_TORN = 1.5
"""Heights between the pieces of a line that was torn apart."""


@dataclass(slots=True)
class Column:
    """Lines that are read from the top down; several lines may share a row."""

    x0: float
    x1: float
    rows: list[list[TextLine]]


Strip: TypeAlias = tuple[float, float]
"""Left and right edge of a gutter."""


def usual_gutter(strips: Iterable[Strip | None]) -> Strip | None:
    """The gutter of most pages, where it stands at one place on at least two."""
    gutters = [gutter for gutter in strips if gutter is not None]
    places = Counter(round((left + right) / 8) for left, right in gutters)
    for place, count in places.most_common(1):
        same = [gutter for gutter in gutters if abs(round(sum(gutter) / 8) - place) <= 1]
        if count >= 2 and len(same) * 2 > len(gutters):
            left, right = median(gutter[0] for gutter in same), median(gutter[1] for gutter in same)
            return (left, right) if left < right else None
    return None


def columns_of(lines: Sequence[TextLine], gutter: Strip | None, usual: Strip | None = None) -> list[Column]:
    """The columns of a page with this gutter in reading order; `usual` is the gutter of other pages."""
    if not lines:
        return []
    x0, x1 = _edges(lines)
    if len(lines) > MOST_LINES:
        return [Column(x0, x1, [[line] for line in lines])]
    if gutter is None and usual is not None and _usable(lines, *usual):
        gutter = usual
    if gutter is None:
        return [Column(x0, x1, rows_of(lines))]
    placed = sorted(((_crosses(line, *gutter), line) for line in lines), key=lambda pair: (pair[1].middle, pair[0]))
    columns: list[Column] = []
    for crossing, pairs in groupby(placed, key=itemgetter(0)):
        band = [line for _, line in pairs]
        columns += [Column(x0, x1, [[line] for line in band])] if crossing else _band(band, gutter)
    return columns


def _edges(lines: Sequence[TextLine]) -> Strip:
    return min(line.x0 for line in lines), max(line.x1 for line in lines)


def _usable(lines: Sequence[TextLine], left: float, right: float) -> bool:
    """Whether the gutter of other pages parts this page too."""
    crossing = sum(_crosses(line, left, right) for line in lines)
    before = sum(line.x1 <= (left + right) / 2 for line in lines)
    after = sum(line.x0 >= (left + right) / 2 for line in lines)
    return right - left >= _STEP and min(before, after) >= _LEAST_ROWS and crossing <= 0.2 * len(lines)


def _crosses(line: TextLine, left: float, right: float) -> bool:
    return line.x0 < left and line.x1 > right


def _band(lines: list[TextLine], gutter: Strip) -> list[Column]:
    """The two sides of a gutter; names above the text (authors in columns of their own) are a band by themselves."""
    rows = rows_of(lines)
    if all(len(row) > 2 for row in rows) and len(rows) > 1:
        return [Column(min(line.x0 for line in lines), max(line.x1 for line in lines), rows)]
    cut = _names(lines)
    if cut:
        above = _mended([line for line in lines if line.middle < cut])
        below = [line for line in lines if line.middle >= cut]
        return [*columns_of(above, gutter), *_band(below, gutter)]
    middle = (gutter[0] + gutter[1]) / 2
    left = [line for line in lines if (line.x0 + line.x1) / 2 < middle]
    right = [line for line in lines if (line.x0 + line.x1) / 2 >= middle]
    return [*columns_of(left, gutter_of(left)), *columns_of(right, gutter_of(right))]


def _mended(lines: Sequence[TextLine]) -> list[TextLine]:
    """Lines of a title, or of names, in one piece where the file has torn them apart at the gutter."""
    mended: list[TextLine] = []
    for row in rows_of(lines):
        at = len(mended)
        for line in row:
            if len(mended) > at and line.x0 - mended[-1].x1 < _TORN * min(line.height, mended[-1].height):
                mended[-1] = line_of([*mended[-1].words, *line.words])
            else:
                mended.append(line)
    return mended


def _names(lines: Sequence[TextLine]) -> float:
    """Where a few short lines at the top end, by a gap across all columns; 0 where there are none."""
    height = median(line.height for line in lines)
    ordered = sorted(lines, key=lambda line: line.y0)
    bottom = ordered[0].y1
    for n, line in enumerate(ordered[:24]):
        if n > 1 and line.y0 - bottom > height and len(ordered) - n > 2 * _LEAST_ROWS:
            if max(line.width for line in ordered[:n]) < 0.8 * max(line.width for line in ordered[n:]):
                return (line.y0 + bottom) / 2
            return 0.0
        bottom = max(bottom, line.y1)
    return 0.0


def gutter_of(lines: Sequence[TextLine]) -> Strip | None:
    """The strip that most neighbouring lines leave between them, if there is running text on both sides of it."""
    if not 0 < len(lines) <= MOST_LINES:
        return None
    x0, x1 = _edges(lines)
    height = median(line.height for line in lines)
    if not 12 * height <= x1 - x0 <= _WIDEST:
        return None
    pairs = [pair for row in rows_of(lines) for pair in pairwise(row)]
    steps = int((x1 - x0) / _STEP) + 2
    between = [0] * (steps + 1)
    for left, right in pairs:
        between[int((left.x1 - x0) / _STEP) + 1] += 1
        between[int((right.x0 - x0) / _STEP)] -= 1
    between = list(accumulate(between))
    most = max(between)
    first = last = between.index(most)
    while first > 0 and between[first - 1] >= 0.8 * most:
        first -= 1
    while last + 1 < len(between) and between[last + 1] >= 0.8 * most:
        last += 1
    middle = x0 + (first + last + 1) / 2 * _STEP
    pairs = [(left, right) for left, right in pairs if left.x1 <= middle <= right.x0]
    beside = [list({id(pair[side]): pair[side] for pair in pairs}.values()) for side in (0, 1)]
    if min(map(len, beside)) < _LEAST_ROWS:
        return None
    ends, starts = max(line.x1 for line in beside[0]), min(line.x0 for line in beside[1])
    if starts - ends < 0.4 * height:
        return None
    if all(_running(side, width) for side, width in zip(beside, (ends - x0, x1 - starts), strict=True)) or all(
        _prose(side) for side in beside
    ):
        return ends + 0.1, starts - 0.1
    return None


def _running(side: Sequence[TextLine], width: float) -> bool:
    """Whether lines fill a column of this width and stand closely, as text does."""
    rows = rows_of(side)
    filled = median(sum(line.width for line in row) / max(1.0, width) for row in rows)
    letters = median(sum(len(word.text) for line in row for word in line.words) for row in rows)
    pitch = _pitch(rows)
    return (filled >= _FILLED and letters >= 12 and pitch <= _CLOSE) or (
        filled >= 0.75 and letters >= 25 and len(rows) >= 8 and pitch <= 2 * _CLOSE
    )


def _prose(side: Sequence[TextLine]) -> bool:
    """Whether short lines are of several words each and stand closely."""
    rows = rows_of(side)
    words = median(sum(len(line.words) for line in row) for row in rows)
    return words >= _WORDS and _pitch(rows) <= _CLOSE and sum(map(len, rows)) <= 1.3 * len(rows)


def _pitch(rows: Sequence[Sequence[TextLine]]) -> float:
    """From line to line, in heights."""
    steps = [(below[0].middle - above[0].middle) / max(1.0, above[0].height) for above, below in pairwise(rows)]
    return median(steps) if steps else 1.0


_OUTERMOST = 2
_EDGE = 0.12  # of the page's height, in which a running head or foot stands
_MARGIN = 0.075  # in which a line is one though it stands on one page alone
_SHARE = 0.3  # of the pages that a running line stands on
_DIGITS = re.compile(r"\d+|\b[ivxlc]+\b")
_PAGE = re.compile(r"(?:page|p\.|seite)?\W*#\W*(?:(?:of|von|/)\W*#\W*)?")
_IMPRINT = re.compile(r"(?i)©|\(c\) ?\d{4}|copyright|proceedings|\bpp?\.? ?\d|pages? \d|\bvol(ume|\.)|\bdoi\b|arxiv")
_EDGE_ROWS = 6
CAPTION = re.compile(
    r"(?i:fig(?:ure|\.)?|table|tab\.|listing|algorithm)\s*\d+\s*[.:)|–—-]|(?:Figure|Table|FIGURE|TABLE)\s+\d+(?:\s+(?=[A-Z])|$)"
)
FOOTNOTE = re.compile(r"(?:\d{1,2}|[*†‡§¶∗])\s?(?=[^\W\d_]|https?:|\")")


class Body:
    """Properties of a file's running text."""

    def __init__(self, pages: Sequence[Sequence[TextLine]], named: Set[tuple[int, str]]) -> None:
        self.named = named
        sizes: Counter[float] = Counter()
        bold = total = 0
        for lines in pages:
            for line in lines:
                letters = sum(len(word.text) for word in line.words)
                sizes[round(line.height * 2) / 2] += letters
                total += letters
                bold += letters if line.bold else 0
        self.height = commonest(sizes, 10.0)
        self.bold = bold * 2 > total
        # Where heights differ within the lines, they say little: some fonts give each letter a box of its own.
        words = [word.height < 0.85 * line.height for lines in pages for line in lines for word in line.words]
        self.large = (1.12 if sum(words) < 0.25 * len(words) else 1.45) * self.height


def running_lines(every: Sequence[Sequence[TextLine]], pages: Sequence[PageWords], body: Body) -> set[int]:
    """The ids of lines that are running heads and feet."""
    counts: Counter[tuple[bool, str]] = Counter()
    exact: Counter[tuple[bool, str]] = Counter()
    places: Counter[tuple[bool, int]] = Counter()
    outermost: Counter[str] = Counter()
    sheets = list[tuple[list[tuple[bool, str, TextLine]], list[TextLine], PageWords]]()
    for lines, page in zip(every, pages, strict=True):
        ordered = sorted(lines, key=lambda line: line.middle)
        own = [
            (top, _without_numbers(line.text), line)
            for top, outer in ((True, ordered[:_EDGE_ROWS]), (False, ordered[-_EDGE_ROWS:]))
            for line in outer
            if (line.y1 < _EDGE * page.height if top else line.y0 > (1 - _EDGE) * page.height)
        ]
        sheets.append((own, ordered, page))
        counts.update({(top, text) for top, text, _ in own})
        exact.update({(top, line.text) for top, _, line in own})
        margin = [
            (top, line) for top, _, line in own if not _page_number(line) and _at_margin(line, lines, page, body, top)
        ]
        places.update({(top, _place(line)) for top, line in margin})
        outermost.update(_counted(line.text) for line in _ends(ordered))
    often = {text for text, count in outermost.items() if len(pages) > 3 and count * 2 >= len(pages)}
    least = max(2, _SHARE * len(pages))
    running: set[int] = set()
    for own, ordered, page in sheets:
        ids = {id(line) for line in _ends(ordered) if _counted(line.text) in often}
        for top, text, line in own:
            count = counts[top, text]
            # Only its numbers tell a step of a manual from the one on the next page: it is no running head.
            repeated = (count >= least or (count >= 3 and len(text) > 12)) and (
                exact[top, line.text] * 2 > count or _PAGE.fullmatch(text) or _alone(line, ordered, top, 0.5)
            )
            # What stands on one page alone, such as the imprint of the first, is told elsewhere by nothing: it is kept.
            usual = len(pages) < 3 or places[top, _place(line)] * 2 > len(pages) or _page_number(line)
            if repeated or (usual and _at_margin(line, ordered, page, body, top)):
                ids.add(id(line))
                if not _page_number(line):  # what stands between it and the edge belongs to it
                    down = 1 if top else -1
                    beyond = (
                        other for side, _, other in own if side == top and down * (other.middle - line.middle) <= 1
                    )
                    ids.update(map(id, beyond))
        # Never most of a page: the outermost go first, from both sides.
        depths = {id(line): min(n, len(ordered) - 1 - n) for n, line in enumerate(ordered)}
        running.update(sorted(ids, key=depths.__getitem__)[: len(ordered) // 2])
    return running


def _ends(ordered: Sequence[TextLine]) -> Sequence[TextLine]:
    """The outermost lines of a page."""
    return [*ordered[:_OUTERMOST], *ordered[-_OUTERMOST:]] if len(ordered) >= 2 * _OUTERMOST else ordered


def _without_numbers(text: str) -> str:
    return _DIGITS.sub("#", text.lower())


def _counted(text: str) -> str:
    """A line as it is counted wherever it stands: of page numbers alone the number is nothing."""
    plain = _without_numbers(text)
    return plain if _PAGE.fullmatch(plain) else text


def _place(line: TextLine) -> int:
    return round(line.middle / 3)


def _page_number(line: TextLine) -> bool:
    text = line.text.strip("-–—[]() .")
    return text.isdigit() and len(text) <= 4


def _at_margin(line: TextLine, lines: Sequence[TextLine], page: PageWords, body: Body, top: bool) -> bool:
    """Whether a line stands alone in the margin, and is a page number, an imprint, or in small print."""
    depth = line.y1 if top else page.height - line.y0
    if depth > _EDGE * page.height or line.height > 1.15 * body.height:
        return False
    if _page_number(line):
        return _alone(line, lines, top, 0.6)
    if FOOTNOTE.match(line.text) or CAPTION.match(line.text):
        return False
    if _IMPRINT.search(line.text) and line.height < 0.97 * body.height:
        return _alone(line, lines, top, 0.5)
    return depth <= _MARGIN * page.height and len(line.text) <= 120 and _alone(line, lines, top, 1.0)


def _alone(line: TextLine, lines: Sequence[TextLine], top: bool, heights: float) -> bool:
    """Whether nothing but such lines stands between this one and the edge, and a gap parts it from the rest."""
    end = line.y1 if top else -line.y0
    others = ((other.y0, other.y1) if top else (-other.y1, -other.y0) for other in lines if other is not line)
    return not any(first < end + heights * line.height and last > end + 1 for first, last in others)
