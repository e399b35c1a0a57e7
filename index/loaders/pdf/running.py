"""What runs from page to page: heads, feet and page numbers; and what a file's own text looks like."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence, Set

from index.loaders.pdf.glyphs import PageWords, commonest
from index.loaders.pdf.lines import TextLine

_OUTERMOST = 2
_EDGE = 0.12  # of the page's height, in which a running head or foot stands
_MARGIN = 0.075  # in which a line is one though it stands on one page alone
_SHARE = 0.3  # of the pages that a running line stands on
_DIGITS = re.compile(r"\d+|\b[ivxlc]+\b")
_PAGE = re.compile(r"(?:page|p\.|seite)?\W*#\W*(?:(?:of|von|/)\W*#\W*)?")
_IMPRINT = re.compile(r"(?i)©|\(c\) ?\d{4}|copyright|proceedings|\bpp?\.? ?\d|pages? \d|\bvol(ume|\.)|\bdoi\b|arxiv")
_EDGE_ROWS = 3
CAPTION = re.compile(
    r"(?i:fig(?:ure|\.)?|table|tab\.|listing|algorithm)\s*\d+\s*[.:)|–—-]|(?:Figure|Table|FIGURE|TABLE)\s+\d+(?:\s+(?=[A-Z])|$)"
)
FOOTNOTE = re.compile(r"(?:\d{1,2}|[*†‡§¶∗])\s?(?=[^\W\d_]|https?:|\")")


class Body:
    """What the running text of a file looks like."""

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
    shown: Counter[tuple[bool, str]] = Counter()
    exact: Counter[tuple[bool, str]] = Counter()
    places: Counter[tuple[bool, int]] = Counter()
    outermost: Counter[str] = Counter()
    edges: list[list[tuple[bool, str, TextLine]]] = []
    for lines, page in zip(every, pages, strict=True):
        own: list[tuple[bool, str, TextLine]] = []
        ordered = sorted(lines, key=lambda line: line.middle)
        for top, some in ((True, ordered[: 2 * _EDGE_ROWS]), (False, ordered[-2 * _EDGE_ROWS :])):
            for line in some:
                if (line.y1 < _EDGE * page.height) if top else (line.y0 > (1 - _EDGE) * page.height):
                    own.append((top, _DIGITS.sub("#", line.text.lower()), line))
            for line in some[:_OUTERMOST] if top else some[-_OUTERMOST:]:
                outermost[_counted(line.text)] += 1
        edges.append(own)
        shown.update({(top, text) for top, text, _ in own})
        exact.update({(top, line.text) for top, _, line in own})
        places.update(
            {
                (top, _place(line))
                for top, _, line in own
                if not _page_number(line) and _at_margin(line, lines, page, body, top)
            }
        )
    often = {text for text, count in outermost.items() if len(pages) > 3 and count * 2 >= len(pages)}
    least = max(2, _SHARE * len(pages))
    running: set[int] = set()
    for own, lines, page in zip(edges, every, pages, strict=True):
        found: set[int] = set()
        for top, text, line in own:
            repeated = shown[top, text] >= least or (shown[top, text] >= 3 and len(text) > 12)
            # Only its numbers tell a step of a manual from the one on the next page: it is no running head.
            repeated = repeated and (
                exact[top, line.text] * 2 > shown[top, text]
                or bool(_PAGE.fullmatch(text))
                or _alone(line, lines, top, 0.5)
            )
            # What stands on one page alone, such as the imprint of the first, is told elsewhere by nothing: it is kept.
            usual = len(pages) < 3 or places[top, _place(line)] * 2 > len(pages) or _page_number(line)
            if repeated or (usual and _at_margin(line, lines, page, body, top)):
                found.add(id(line))
                if not _page_number(line):  # what stands between it and the edge belongs to it
                    found.update(id(one) for is_top, _, one in own if is_top == top and _further(one, line, top))
        outer = sorted(lines, key=lambda line: line.middle)
        ends = [*outer[:_OUTERMOST], *outer[-_OUTERMOST:]] if len(outer) >= 2 * _OUTERMOST else outer
        found.update(id(line) for line in ends if _counted(line.text) in often)
        # Never most of a page: the outermost go first, from both sides.
        depths = {id(line): min(n, len(outer) - 1 - n) for n, line in enumerate(outer)}
        running.update(sorted(found, key=depths.__getitem__)[: len(lines) // 2])
    return running


def _counted(text: str) -> str:
    """A line as it is counted wherever it stands: of page numbers alone the number is nothing."""
    plain = _DIGITS.sub("#", text.lower())
    return plain if _PAGE.fullmatch(plain) else text


def _further(line: TextLine, than: TextLine, top: bool) -> bool:
    return line.middle <= than.middle + 1 if top else line.middle >= than.middle - 1


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
    gap = heights * line.height
    if top:
        return not any(other.y0 < line.y1 + gap and other.y1 > line.y1 + 1 for other in lines if other is not line)
    return not any(other.y1 > line.y0 - gap and other.y0 < line.y0 - 1 for other in lines if other is not line)
