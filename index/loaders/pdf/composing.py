"""From regions to a document's text: lines joined to paragraphs, broken words mended, headings made a path.

Where each line of the text stands on its page is kept, so that a passage can be shown there.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from index.documents import PlacedText, Section
from index.loaders.pdf.glyphs import Rectangle, TextLine, around
from index.loaders.pdf.regions import DROPPED, REFERENCES, Region, heading_key
from index.loaders.reading import clean, one_line

_BRACKETED = re.compile(r"\[[^\[\]]{1,24}\]")
_NUMBERED = re.compile(r"(\d{1,3})\.?\s")
_YEAR = re.compile(r"(?:19|20)\d\d")
_MOST = 1000
_LONGEST = 600
_NEAR = 40
"""Points within which lines of one column begin."""


def reference_list(regions: Sequence[Region]) -> list[str]:
    """The entries in their order, at most 1,000 of 600 characters."""
    pairs = [(region.page, line) for region in regions if region.kind == "reference" for line in region.lines]
    lines = [(page, line) for page, line in pairs if not REFERENCES.fullmatch(line.text)]
    beginnings, labelled = _beginnings(lines)
    entries: list[list[TextLine]] = []
    for (_, line), begins in zip(lines, beginnings, strict=True):
        # Names alone on a line are gone on with.
        named = labelled or not entries or len(entries[-1]) > 1 or _YEAR.search(entries[-1][0].text)
        if not entries or (begins and named):
            entries.append([])
        entries[-1].append(line)
    mending = Mending(regions)
    return [one_line(mending.text(Region("reference", 1, lines, lines[0].box)), _LONGEST) for lines in entries[:_MOST]]


def _beginnings(lines: Sequence[tuple[int, TextLine]]) -> tuple[list[bool], bool]:
    """Which lines begin an entry, and whether entries have numbers or labels."""
    texts = [line.text for _, line in lines]
    bracketed = [bool(_BRACKETED.match(text)) for text in texts]
    if sum(bracketed) > 2:
        return bracketed, True
    numbered, last = list[bool](), 0
    for text in texts:
        match = _NUMBERED.match(text)
        numbered.append(match is not None and int(match[1]) == last + 1)
        last += numbered[-1]
    if sum(numbered) > 2:
        return numbered, True
    # Of a row that is set apart in pieces the first counts.
    beside = [abs(b.middle - a.middle) < 0.5 * b.height and b.x0 > a.x0 for (_, a), (_, b) in pairwise(lines)]
    heads = [True, *(not is_beside for is_beside in beside)][: len(lines)]
    pages = defaultdict[int, list[TextLine]](list)
    for (page, line), head in zip(lines, heads, strict=True):
        if head:
            pages[page].append(line)
    columns = [[other for other in pages[page] if abs(other.x0 - line.x0) < _NEAR] or [line] for page, line in lines]
    lefts = [min(other.x0 for other in column) for column in columns]
    hanging = [
        head and line.x0 < left + 0.4 * line.height for (_, line), left, head in zip(lines, lefts, heads, strict=True)
    ]
    if sum(hanging) < 0.9 * len(hanging):
        return hanging, False
    # Neither numbers nor indents: what follows a line that ends a sentence, if that ends early or this names a year.
    ended = [False] + [
        above.text.endswith(".")
        and (above.x1 < max(other.x1 for other in column) - above.height or bool(_YEAR.search(below.text)))
        for ((_, above), (_, below)), column in zip(pairwise(lines), columns, strict=False)
    ]
    return ended[: len(lines)], False


_BROKEN = re.compile(r"(?<![^\W\d_])([^\W\d_]{1,60})[-\u00ad]$")
_FIRST_WORD = re.compile(r"[^\W\d_]+")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_BREAK = "\n\n"


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of the file's own outline: its depth from 0, its page from 0, its words."""

    level: int
    page: int
    words: str


@dataclass(frozen=True, slots=True)
class Composed:
    """A document's text and sections; `title` is the largest heading of its first page."""

    text: str
    sections: tuple[Section, ...]
    title: str


def compose(regions: Sequence[Region], outline: Sequence[Heading]) -> Composed:
    """The document of these regions, which are in reading order."""
    shown_regions = [region for region in regions if region.kind not in DROPPED]
    writer = _Composer(Mending(shown_regions))
    named = {(entry.page + 1, heading_key(entry.words)): entry for entry in reversed(outline)}
    path: list[tuple[int, str]] = []
    title = ""
    for region in shown_regions:
        words = " ".join(region.text.split())
        level = region.level if region.kind == "title" else None
        if (
            region.kind in ("title", "text")
            and len(region.lines) <= 3
            and (heading := named.get((region.page, heading_key(words))))
        ):
            level = heading.level + 1
            if not title and region.page == 1 and region.level == 0 and region.kind == "title":
                title = words
        elif level is not None and outline and path:
            level = max(level, path[-1][0] + 1 if len(path) < 6 else path[-1][0])
        if level is None:
            if region.page != writer.page and not region.goes_on:
                writer.close(path)
            writer.add(region)
            continue
        writer.close(path)
        writer.add(region)
        writer.flush()  # a heading is in no section
        if level == 0:
            title = title or words
        else:
            path = [*(step for step in path if step[0] < level), (level, words)]
    writer.close(path)
    return Composed(writer.text, tuple(writer.sections), title)


class Mending:
    """Joins lines. The words of a file that no line end breaks tell how a broken one is written."""

    def __init__(self, regions: Sequence[Region]) -> None:
        self._seen: Counter[str] = Counter()
        for region in regions:
            for line in region.lines:
                words = _WORD.findall(line.text.lower())
                self._seen.update(words if not _BROKEN.search(line.text) else words[:-1])

    def text(self, region: Region) -> str:
        """The text of a region by itself; of a table as Markdown."""
        if region.rows:
            return "\n".join(row for row, _ in _table(region))
        pieces: list[_Written] = []
        for line in region.lines:
            self.append(pieces, _Written(clean(line.text), region.page, line.box))
        return "".join(piece.before + piece.text for piece in pieces)

    def append(self, pieces: list[_Written], piece: _Written) -> None:
        """Add a line to those before it; a hyphen at their end goes where it only marked a break."""
        if pieces:
            broken, following = _BROKEN.search(pieces[-1].text), _FIRST_WORD.match(piece.text)
            if broken is None or following is None:
                piece.before = "" if pieces[-1].text.endswith("-") and piece.text[:1].isalnum() else " "
            elif not self._hyphenated(broken.group(1), following.group()):
                pieces[-1].text = pieces[-1].text[:-1]
        pieces.append(piece)

    def _hyphenated(self, first: str, second: str) -> bool:
        """Whether a word keeps its hyphen: as the file writes it elsewhere, else where a name goes on."""
        whole, parted = (first + second).lower(), f"{first}-{second}".lower()
        if self._seen[whole] != self._seen[parted]:
            return self._seen[parted] > self._seen[whole]
        return second[0].isupper()


@dataclass(slots=True)
class _Written:
    """A line as it is written, where it stands, and what parts it from the one before."""

    text: str
    page: int
    box: Rectangle
    before: str = ""
    region: str = ""


class _Composer:
    """The text so far and its sections; `pieces` are those of the section at hand."""

    def __init__(self, mending: Mending) -> None:
        self._mending = mending
        self._pieces: list[_Written] = []
        self._parts: list[str] = []
        self._at = 0
        self.sections: list[Section] = []

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def page(self) -> int | None:
        """The page of the last line of the section at hand."""
        return self._pieces[-1].page if self._pieces else None

    def add(self, region: Region) -> None:
        """Write a region, behind a blank line unless it continues the one before."""
        before = _BREAK if self._pieces or self._at else ""
        if region.rows:
            for row, box in _table(region):
                self._pieces.append(_Written(row, region.page, box, before, region.kind))
                before = "\n"
            return
        for n, line in enumerate(region.lines):
            piece = _Written(clean(line.text), region.page, line.box, "", region.kind)
            if n or (region.goes_on and self._pieces):
                self._mending.append(self._pieces, piece)
            else:
                piece.before = before
                self._pieces.append(piece)

    def close(self, path: Sequence[tuple[int, str]]) -> None:
        """End the section at hand."""
        if placed := self.flush():
            heading = tuple(words for _, words in path)
            self.sections.append(Section(heading, placed[0].start, placed[-1].end, placed[0].page, placed=placed))

    def flush(self) -> tuple[PlacedText, ...]:
        """Write the pieces at hand, and tell where they stand."""
        placed: list[PlacedText] = []
        for piece in self._pieces:
            self._at += len(piece.before)
            x0, y0, x1, y1 = (round(value, 1) for value in piece.box)
            if piece.text.strip():
                end = self._at + len(piece.text)
                placed.append(PlacedText(self._at, end, piece.page, x0, y0, x1, y1, piece.region))
            self._at += len(piece.text)
            self._parts += [piece.before, piece.text]
        self._pieces = []
        return tuple(placed)


def _table(region: Region) -> Iterator[tuple[str, Rectangle]]:
    """The rows of a table as Markdown, the first as its header."""
    columns = max(map(len, region.rows))
    for n, row in enumerate(region.rows):
        boxes = [cell.box for cell in row if cell.box]
        box = around(boxes) if boxes else region.box
        cells = [clean(cell.text).replace("\n", " ").replace("\\", "\\\\").replace("|", "\\|") for cell in row]
        yield f"| {' | '.join(cells + [''] * (columns - len(cells)))} |", box
        if n == 0:
            yield f"|{' --- |' * columns}", box


# pdfium marks a hyphen it recognised as a line break's own with one of these two.
_MARKED_HYPHEN = re.compile(r"[\x02\ufffe][ \t]*\n?[ \t]*")
_HYPHEN = re.compile(r"(?<=[^\W\d_]{2})-[ \t]*\n[ \t]*(?=[^\W\d_A-Z])|\u00ad[ \t]*\n?[ \t]*")


def join_lines(text: str) -> str:
    """The text with words joined that a line end had broken; other line ends stay."""
    return _HYPHEN.sub("", _MARKED_HYPHEN.sub("", text))
