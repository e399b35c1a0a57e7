"""Regions: what each part of the pages is, in reading order, over all pages of a file.

Running heads and feet repeat from page to page, headings stand out by their font or number, captions and footnotes by
how they begin, references by their heading. Anything else is text and is kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
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
from index.loaders.pdf.tables import ruled, unruled

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
_LONGEST_LABEL = 200
_WIDEST_LEADING = 2.6
_WRITERS = re.compile(r"@|[*†‡§¶∗]|\d\s*(?:,|$)|(?i:universit|institute|department|school|laborator)")
_MATHS = re.compile(r"[=∑∏∫√∞±×÷≤≥≈≠≡∝∈∉⊂⊆∩∪→←↔⇒∀∃¬∧∨∂∇⟨⟩]|\(\d{1,3}\)$")
_WORDLIKE = re.compile(r"[^\W\d_]{3,}|[\u3040-\u9fff\uac00-\ud7af]+")
_BRACKETS = re.compile(r"[()\[\]{}^_~;|,]")


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
    for number, (page, lines, columns_lines, gutter) in enumerate(zip(pages, every, flow, gutters, strict=True), 1):
        edge = [line for line in lines if id(line) in running]
        regions += _edges(edge, number, page, top=True)
        regions += _page(columns_of(columns_lines, gutter, usual), number, page, body)
        regions += _edges(edge, number, page, top=False)
        if page.aside:
            regions.append(_region("other", number, lines_of(page.aside)))
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
    leading = min(leading, _WIDEST_LEADING * body.height)  # a few lines far apart are no text
    shape = _Shape(left, right, leading)
    small = _footnotes(plain, page, body)
    groups: list[tuple[Kind, list[TextLine]]] = []
    for above, line, below in zip([None, *lines], lines, [*lines[1:], None], strict=False):
        if line.rows:
            own: Kind = "table"
        elif id(line) in small:
            own = "footnote"
        elif (number, heading_key(line.text)) in body.named:
            own = "title"
        else:
            own = _kind(line, above, below, body, shape)
        if not groups or "table" in (own, groups[-1][0]) or _breaks(groups[-1][0], own, groups[-1][1][-1], line, shape):
            groups.append((own, []))
        groups[-1][1].append(line)
    for kind, gathered in groups:
        yield _done(kind, number, gathered, body)


def _numbered_together(row: list[TextLine]) -> list[TextLine]:
    """A row in which a heading's number, set apart from it, has become one line with it."""
    if len(row) == 2 and _NUMBER.fullmatch(row[0].text) and row[1].text[:1].isalpha():
        return [line_of([*row[0].words, *row[1].words])]
    return row


def _footnotes(lines: Sequence[TextLine], page: PageWords, body: Body) -> set[int]:
    """The ids of the lines in small print at the foot of a column, from the first that begins as a footnote."""
    small = list(
        takewhile(lambda line: line.height <= 0.93 * body.height and line.y0 >= 0.4 * page.height, lines[::-1])
    )
    begins = (n for n, line in enumerate(small, 1) if FOOTNOTE.match(line.text) and not CAPTION.match(line.text))
    return {id(line) for line in small[: max(begins, default=0)]}


def _kind(line: TextLine, above: TextLine | None, below: TextLine | None, body: Body, shape: _Shape) -> Kind:
    left, right, leading = shape.left, shape.right, shape.leading
    text = line.text
    caption = CAPTION.match(text)
    if caption and not _runs_on(line, above, shape, caption.group()):
        return "table_caption" if text[:3].lower() == "tab" else "figure_caption"
    if len(text) > _LONGEST_HEADING or not any(map(str.isalpha, text)) or _is_formula(text):
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


def _runs_on(line: TextLine, above: TextLine | None, shape: _Shape, label: str) -> bool:
    """Whether a line that begins as a caption ("Table 1.") goes on with the sentence of the line above it."""
    if above is None or above.rows or label.endswith(":") or line.middle - above.middle > 1.25 * shape.leading:
        return False
    full = above.x1 > shape.right - 0.15 * (shape.right - shape.left)
    alike = 0.93 < line.height / max(0.1, above.height) < 1.07
    return full and alike and len(above.words) > 3 and not _ENDED.search(above.text)


def _is_formula(text: str) -> bool:
    """Whether a line is rather a formula than words: signs of its own, or few words and many brackets."""
    if _MATHS.search(text):
        return True
    letters = sum(map(len, _WORDLIKE.findall(text)))
    return letters < 0.5 * len(_LABEL.sub("", text).replace(" ", "")) and len(_BRACKETS.findall(text)) > 1


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
    region = _region(kind, number, lines)
    if kind == "table":
        region.rows = lines[0].rows
    elif kind == "title":
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
    return " " in text and "@" not in text and not _NAMED.fullmatch(text) and not _is_formula(text)


def _opens_text(text: str) -> bool:
    return bool(_ABSTRACT.fullmatch(text) or _INTRODUCTION.fullmatch(text))


def _titled(regions: list[Region]) -> None:
    """Give level 0 to the document's title: of the first page's headings the largest, if it stands out.

    Where an abstract or introduction begins on that page, the title is what is set largest above it, wherever else the
    file has larger headings; lines of its size beside or below it belong to it.
    """
    first = [region for region in regions if region.page == 1 and region.lines]
    opening = next((n for n, region in enumerate(first) if region.kind == "title" and _opens_text(region.text)), 0)
    above = [region for region in first[:opening] if _may_be_title(region)]
    if above:
        # Names below a title may be as large.
        top = max(map(_size, above))
        title = next(region for region in above if _size(region) > 0.97 * top)
        _extend(title, above[above.index(title) + 1 :], regions)
    else:
        headings = [region for region in first if region.kind == "title" and _names(region.text)]
        if not headings:
            return
        title = max(headings, key=_size)
        others = [_size(region) for region in regions if region.kind == "title" and region is not title]
        least = max(others, default=0.0)
        if others and _size(title) <= 1.05 * least and (_size(title) < least or title is not regions[0]):
            return
    title.kind, title.level = "title", 0
    opening = next((n for n, r in enumerate(regions) if r.kind == "title" and _opens_text(r.text)), 0)
    for region in regions[:opening]:
        if region.kind == "title" and region.level and region.page == 1:
            region.kind = "text"  # who wrote it


def _size(region: Region) -> float:
    return median(line.height for line in region.lines)


def _may_be_title(region: Region) -> bool:
    """Whether a region above the abstract may be the document's title: a few lines of words."""
    short = len(region.lines) <= 4 and len(region.text) <= 1.5 * _LONGEST_HEADING and not region.rows
    return region.kind in ("title", "text") and short and _names(region.text)


def _extend(title: Region, following: Sequence[Region], regions: list[Region]) -> None:
    """Put the regions that go on with a title, of its size and near it, into it."""
    for region in following:
        near = region.box[1] - title.box[3] < 1.6 * _size(title)
        alike = abs(_size(region) - _size(title)) <= 0.05 * _size(title)
        # Names come behind a title, in words of their own size, or with their marks.
        if region.kind != title.kind or not near or not alike or _WRITERS.search(region.text):
            return
        rows = rows_of([*title.lines, *region.lines])
        title.lines = [line for row in rows for line in row]
        title.box = around(line.box for line in title.lines)
        regions[:] = [other for other in regions if other is not region]


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
    usual = median([_size(region) for region in regions if region.kind == "text" for _ in region.lines] or [0.0])
    for region in regions:
        if last is not None and (region.kind not in ("text", "title", "reference") or _is_label(region, usual)):
            waiting.append(region)
            continue
        if last is not None and region.kind == "text":
            broken = _broken(last.lines[-1].text, region.lines[0].text)
            region.goes_on = broken or bool((region.opens or waiting) and _goes_on(last, region))
        if not region.goes_on:
            yield from waiting
            waiting = []
        yield region
        last = region if region.kind == "text" else None
    yield from waiting


def _is_label(region: Region, usual: float) -> bool:
    """Whether a text is a few words in small print, as in a drawing or below a page."""
    return region.kind == "text" and _smaller(_size(region), usual) and len(region.text) < _LONGEST_LABEL


def _smaller(size: float, other: float) -> bool:
    return 1.19 * size < other


def _goes_on(last: Region, region: Region) -> bool:
    """Whether a paragraph was cut by the end of its column."""
    before, after = last.lines[-1].text, region.lines[0].text
    if _smaller(_size(last), _size(region)):
        return False
    if _ENDED.search(before) or _BULLET.match(after) or last.lines[-1].height > 1.2 * region.lines[0].height:
        return False
    return not after[:1].isupper() or before.endswith(("-", ",")) or _full(last)


def _full(region: Region) -> bool:
    """Whether the last line of a region reaches its right edge, so that the next word had no room."""
    return region.lines[-1].x1 > region.box[2] - 0.05 * (region.box[2] - region.box[0]) and len(region.lines) > 1
