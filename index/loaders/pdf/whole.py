"""The text of whole pages in the order in which the file draws it: columns, tables and places are not looked at.

Bookmarks give the headings; running heads and page numbers that repeat are left out; words broken at line ends are
joined. This is `index.pdf.layout = "off"`, and what is left where reading the layout fails.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from index.documents import Section
from index.errors import LoadError
from index.loaders.pdf.composing import Heading
from index.loaders.reading import clean
from text.sentences import trim

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument  # type: ignore[import-untyped]

_MAX_CHARACTERS = 64_000_000
# Characters in which bookmarks' words are looked for, all bookmarks together; later ones name their page from its top.
_MAX_SEARCHED = 100_000_000
_PAGE_BREAK = "\n\n"
# pdfium marks a hyphen it recognised as a line break's own with one of these two.
_MARKED_HYPHEN = re.compile(r"[\x02\ufffe][ \t]*\n?[ \t]*")
_HYPHEN = re.compile(r"(?<=[^\W\d_]{2})-[ \t]*\n[ \t]*(?=[^\W\d_A-Z])|\u00ad[ \t]*\n?[ \t]*")
_DIGITS = re.compile(r"\d+")
# Lines at a page's edge that stand on this share of the pages are its running head or foot.
_REPEATED = 0.5
_EDGE_LINES = 2


def whole_pages(pdf: PdfDocument, name: str, outline: Sequence[Heading]) -> tuple[str, tuple[Section, ...]]:
    """The text of all pages, and a section for each bookmark on each page. Raises LoadError."""
    pages = _without_running_lines(list(_pages(pdf, name)))
    return _PAGE_BREAK.join(pages), tuple(_sections(pages, outline))


def join_lines(text: str) -> str:
    """The text with words joined that a line end had broken; other line ends stay."""
    return _HYPHEN.sub("", _MARKED_HYPHEN.sub("", text))


def _pages(pdf: PdfDocument, name: str) -> Iterator[str]:
    import pypdfium2

    total = 0
    for number in range(len(pdf)):
        try:
            page = pdf[number]
            reader = page.get_textpage()
            text = reader.get_text_range()
            reader.close()
            page.close()
        except pypdfium2.PdfiumError as error:
            raise LoadError(
                f"{name} is broken on page {number + 1} ({error}): open it in a viewer and print it to a new PDF"
            ) from error
        total += len(text)
        if total > _MAX_CHARACTERS:
            raise LoadError(f"{name} holds more than {_MAX_CHARACTERS:,} characters of text: split it")
        text = clean(join_lines(text.replace("\r\n", "\n")))
        yield "\n".join(filter(None, (line.strip() for line in text.split("\n"))))


def _without_running_lines(pages: list[str]) -> list[str]:
    """The pages without the lines at their edges that most pages share, page numbers aside."""
    if len(pages) < 4:
        return pages
    seen: Counter[str] = Counter()
    for page in pages:
        lines = page.split("\n")
        seen.update({_DIGITS.sub("#", line) for line in lines[:_EDGE_LINES] + lines[-_EDGE_LINES:]})
    running = {line for line, count in seen.items() if count >= _REPEATED * len(pages)}
    return ["\n".join(_stripped(page.split("\n"), running)) for page in pages]


def _stripped(lines: list[str], running: set[str]) -> list[str]:
    """`lines` without those at the edges that are `running`, the outermost first, and never half of a page."""
    least = len(lines) / 2
    for edge in (0, -1) * _EDGE_LINES:
        if len(lines) - 1 >= least and _DIGITS.sub("#", lines[edge]) in running:
            lines.pop(edge)
    return lines


def _sections(pages: list[str], outline: Sequence[Heading]) -> Iterator[Section]:
    """Each page, cut where a bookmark's words stand on it; the path is that of the last bookmark before."""
    on_page: dict[int, list[tuple[int, str]]] = {}
    for entry in outline:
        on_page.setdefault(entry.page, []).append((entry.level, entry.words))
    path: list[tuple[int, str]] = []
    offset, searched = 0, 0
    for index, page in enumerate(pages):
        at = 0
        for level, words in on_page.get(index, []):
            found = _find(page, words, at) if searched < _MAX_SEARCHED else None
            searched += len(page) - at
            if found is not None:
                yield from _section(page, path, at, found[0], offset, index)
                at = found[1]
            path = [*(step for step in path if step[0] < level), (level, words)]
        yield from _section(page, path, at, len(page), offset, index)
        offset += len(page) + len(_PAGE_BREAK)


def _section(
    page: str, path: list[tuple[int, str]], start: int, end: int, offset: int, index: int
) -> Iterator[Section]:
    start, end = trim(page, start, end)
    if start < end:
        yield Section(tuple(words for _, words in path), offset + start, offset + end, index + 1)


def _find(page: str, words: str, start: int) -> tuple[int, int] | None:
    """Where a heading's words stand as lines of their own, a number before them allowed."""
    pattern = r"\s+".join(map(re.escape, words.split()))
    match = re.compile(rf"^(?:[\dA-Z][\d.]*\s+)?{pattern}\s*$", re.MULTILINE | re.IGNORECASE).search(page, start)
    return match.span() if match else None
