"""The words of a page with their boxes, and the lines that are drawn on it, as pdfium finds them.

Coordinates are points from the top left corner of the page as it is shown, its rotation applied. Building lines,
columns and tables from words is left to the other modules of this folder.
"""

from __future__ import annotations

import ctypes
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pypdfium2 import PdfObject, PdfPage


Rectangle: TypeAlias = tuple[float, float, float, float]
"""x0, y0, x1, y1."""

_MOST_OBJECTS = 20_000
_MOST_SEGMENTS = 2_000
_HYPHENS = (0x02, 0xFFFE)
_BOLD = ("bold", "black", "heavy", "cmbx", "demi", "-medi")
# A rule is at most this thick, and at least this long, in points.
_THIN = 2.5
_SHORT = 8.0


@dataclass(slots=True)
class PageWord:
    """Characters without white space between them; `height` is that of the font's box, in points."""

    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    bold: bool = False

    @property
    def height(self) -> float:
        return self.y1 - self.y0


@dataclass(slots=True)
class PageWords:
    """Content of a page, in the order in which the file draws it.

    `aside` are words that stand at an angle to the page's text; `rules` are straight lines along the edges' directions;
    `images` are pictures.
    """

    width: float
    height: float
    words: list[PageWord] = field(default_factory=list)
    aside: list[PageWord] = field(default_factory=list)
    rules: list[Rectangle] = field(default_factory=list)
    images: list[Rectangle] = field(default_factory=list)


def read_page(page: PdfPage, most_characters: int) -> PageWords:
    """The words, rules and pictures of a page, at most so many characters of it. Raises PdfiumError."""
    width, height = page.get_size()
    page_words = PageWords(width, height)
    visible = _shown(page)
    by_angle = defaultdict[int, list[PageWord]](list)
    with closing(page.get_textpage()) as textpage:
        for angle, word in _words(textpage.raw, min(textpage.count_chars(), most_characters), visible):
            by_angle[angle].append(word)
    page_words.words = by_angle.pop(page.get_rotation() // 90, [])
    page_words.aside = [word for words in by_angle.values() for word in words]
    # A page's text runs as most of its characters do.
    if len(page_words.aside) > 4 * len(page_words.words):
        page_words.words, page_words.aside = page_words.aside, page_words.words
    for kind, box in _objects(page):
        (page_words.images if kind == "image" else page_words.rules).append(visible(*box))
    return page_words


def _shown(page: PdfPage) -> Callable[[float, float, float, float], Rectangle]:
    """From left, bottom, right, top in the file's space to the page as it is shown."""
    left, bottom, right, top = page.get_bbox()
    return {
        0: lambda x0, y0, x1, y1: (x0 - left, top - y1, x1 - left, top - y0),
        90: lambda x0, y0, x1, y1: (y0 - bottom, x0 - left, y1 - bottom, x1 - left),
        180: lambda x0, y0, x1, y1: (right - x1, y0 - bottom, right - x0, y1 - bottom),
        270: lambda x0, y0, x1, y1: (top - y1, right - x1, top - y0, right - x0),
    }[page.get_rotation()]


def _words(
    raw: ctypes.c_void_p, count: int, visible: Callable[[float, float, float, float], Rectangle]
) -> Iterator[tuple[int, PageWord]]:
    """Each word with its angle, in quarter turns."""
    from pypdfium2 import raw as pdfium

    rect = pdfium.FS_RECTF()
    target = ctypes.byref(rect)
    name, flags = ctypes.create_string_buffer(128), ctypes.c_int()
    bold_names: dict[bytes, bool] = {}
    word = ""
    angle, bold = 0, False
    x0 = y0 = x1 = y1 = left = bottom = right = top = 0.0
    for at, letter in _letters(raw, count):
        blank = apart = letter.isspace() or letter < " "
        if not blank:
            pdfium.FPDFText_GetLooseCharBox(raw, at, target)
            left, bottom, right, top = rect.left, rect.bottom, rect.right, rect.top
            size = y1 - y0
            apart = angle == 0 and (
                bottom > y1 - 0.3 * size or top < y0 + 0.3 * size or left > x1 + 0.5 * size or left < x0 - size
            )
        if word and apart:
            yield angle, PageWord(word, *visible(x0, y0, x1, y1), bold)
            word = ""
        if word:
            word += letter
            x0, y0, x1, y1 = min(x0, left), min(y0, bottom), max(x1, right), max(y1, top)
        elif not blank:
            word = letter
            x0, y0, x1, y1 = left, bottom, right, top
            angle = round(pdfium.FPDFText_GetCharAngle(raw, at) / (math.pi / 2)) % 4
            length = pdfium.FPDFText_GetFontInfo(raw, at, name, 128, ctypes.byref(flags))
            key = name.raw[: max(0, min(length, 128) - 1)]
            if key not in bold_names:
                lower = key.decode("latin-1").lower()
                bold_names[key] = any(mark in lower for mark in _BOLD) or bool(flags.value & 1 << 18)
            bold = bold_names[key]
    if word:
        yield angle, PageWord(word, *visible(x0, y0, x1, y1), bold)


def _letters(raw: ctypes.c_void_p, count: int) -> Iterator[tuple[int, str]]:
    """Each character with its number, halves of a pair joined."""
    from pypdfium2 import raw as pdfium

    high = 0
    for at in range(count):
        code = pdfium.FPDFText_GetUnicode(raw, at)
        if 0xD800 <= code < 0xDC00:
            high = code
            continue
        if 0xDC00 <= code < 0xE000 and high:
            code, high = 0x10000 + ((high - 0xD800) << 10) + code - 0xDC00, 0
        lone = 0xD800 <= code < 0xE000 or code >= 0x110000
        yield at, "-" if code in _HYPHENS else "\ufffd" if lone else chr(code)


def _objects(page: PdfPage) -> Iterator[tuple[str, Rectangle]]:
    """Pictures and straight rules, in the file's space."""
    from pypdfium2 import raw as pdfium

    for at, item in enumerate(page.get_objects(filter=(pdfium.FPDF_PAGEOBJ_PATH, pdfium.FPDF_PAGEOBJ_IMAGE))):
        if at >= _MOST_OBJECTS:
            return
        x0, y0, x1, y1 = _placed(item)
        if item.type == pdfium.FPDF_PAGEOBJ_IMAGE:
            yield "image", (x0, y0, x1, y1)
        elif x1 - x0 <= _THIN or y1 - y0 <= _THIN:
            if max(x1 - x0, y1 - y0) >= _SHORT:
                yield "rule", (x0, y0, x1, y1)
        elif item.level == 0:
            for rule in _segments(item.raw):
                yield "rule", rule


def _placed(item: PdfObject) -> Rectangle:
    """An object's box in the page's space; what a form holds has its box in the form's own."""
    box: Rectangle = item.get_bounds()
    form = item.container
    while form is not None:
        box = form.get_matrix().on_rect(*box)
        form = form.container
    return box


def _segments(path: ctypes.c_void_p) -> Iterator[Rectangle]:
    """The straight parts of a path that is drawn as a line; a surface that is only filled has none."""
    from pypdfium2 import raw as pdfium

    fill, stroke = ctypes.c_int(), ctypes.c_int()
    pdfium.FPDFPath_GetDrawMode(path, ctypes.byref(fill), ctypes.byref(stroke))
    count = pdfium.FPDFPath_CountSegments(path)
    if not stroke.value or not 0 < count <= _MOST_SEGMENTS:
        return
    matrix = pdfium.FS_MATRIX()
    pdfium.FPDFPageObj_GetMatrix(path, matrix)
    x, y = ctypes.c_float(), ctypes.c_float()
    first = last = (0.0, 0.0)
    for at in range(count):
        segment = pdfium.FPDFPath_GetPathSegment(path, at)
        pdfium.FPDFPathSegment_GetPoint(segment, ctypes.byref(x), ctypes.byref(y))
        point = (matrix.a * x.value + matrix.c * y.value + matrix.e, matrix.b * x.value + matrix.d * y.value + matrix.f)
        kind = pdfium.FPDFPathSegment_GetType(segment)
        if kind == pdfium.FPDF_SEGMENT_MOVETO:
            first = point
        elif kind == pdfium.FPDF_SEGMENT_LINETO:
            yield from _rule(last, point)
        if pdfium.FPDFPathSegment_GetClose(segment):
            yield from _rule(point, first)
        last = point


def _rule(first: tuple[float, float], other: tuple[float, float]) -> Iterator[Rectangle]:
    x0, x1 = sorted((first[0], other[0]))
    y0, y1 = sorted((first[1], other[1]))
    if min(x1 - x0, y1 - y0) <= _THIN / 2 and max(x1 - x0, y1 - y0) >= _SHORT:
        yield x0, y0, x1, y1


def commonest(values: Counter[float], default: float = 0.0) -> float:
    """The value that weighs most, the smallest of several."""
    return min(values, key=lambda value: (-values[value], value)) if values else default


# A sign whose box is so many times as high as words says nothing of their size.
_TALL = 1.8
# Words further apart than this many heights do not belong to one run of text.
_GAP = 0.9
# Words drawn apart from each other are joined where they are at most this near.
_NEAR = 0.7
# With more of them, a page is rather a drawing, and is left as it is drawn.
_MOST = 5000


@dataclass(slots=True)
class TextLine:
    """Words side by side, from left to right; `rows` are the cells of a table that replaces the line."""

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
    lettered = sorted(word.height for word in ordered if word.text[:2].isalpha())
    named = sorted(word.height for word in ordered if word.text[:2].isalpha() and len(word.text) > 1)
    if named:
        lettered = [height for height in lettered if height <= _TALL * named[len(named) // 2]]
    heights = lettered or sorted(word.height for word in ordered)
    height = heights[len(heights) * 4 // 5]
    # What reaches into the lines around it does not say where this one stands.
    own = [word for word in ordered if word.height <= _TALL * height] or ordered
    y0, y1 = min(word.y0 for word in own), max(word.y1 for word in own)
    return TextLine(ordered, ordered[0].x0, y0, max(word.x1 for word in ordered), y1, height)


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
    lines = [line_of(run) for run in runs]
    return lines if len(lines) > _MOST else sorted(_joined(lines), key=lambda line: (line.y0, line.x0))


def _follows(last: PageWord, word: PageWord) -> bool:
    height = min(last.height, word.height)
    if overlap(last.y0, last.y1, word.y0, word.y1) < 0.5:
        return False
    return -0.5 * height <= word.x0 - last.x1 <= _GAP * max(last.height, word.height)


def _joined(lines: list[TextLine]) -> list[TextLine]:
    """Runs that the file draws apart though they stand side by side, such as a word in another font."""
    lines.sort(key=lambda line: (line.x0, line.y0))
    by_band = defaultdict[int, list[int]](list)
    merged: list[TextLine] = []
    for line in lines:
        best = None
        for band in range(int(line.y0 // 20) - 1, int(line.y1 // 20) + 2):
            for n in by_band.get(band, ()):
                other = merged[n]
                gap = line.x0 - other.x1
                height = max(other.height, line.height)
                if height > _TALL * min(other.height, line.height):
                    height = min(other.height, line.height)  # a sign's box reaches far into the lines around it
                if -0.5 * height <= gap <= _NEAR * height and overlap(other.y0, other.y1, line.y0, line.y1) >= 0.6:
                    best = n
        if best is None:
            by_band[int(line.y0 // 20)].append(len(merged))
            merged.append(line)
        else:
            merged[best] = line_of([*merged[best].words, *line.words])
    return merged


def rows_of(lines: Sequence[TextLine]) -> list[list[TextLine]]:
    """Group lines into rows, from the top down and from left to right."""
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
