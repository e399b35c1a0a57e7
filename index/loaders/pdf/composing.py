"""From regions to a document's text: lines joined to paragraphs, broken words mended, headings made a path.

Where each line of the text stands on its page is kept, so that a passage can be shown there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from index.documents import PlacedText, Section
from index.loaders.pdf.glyphs import Rectangle
from index.loaders.pdf.lines import around
from index.loaders.pdf.regions import DROPPED, Region, heading_key
from index.loaders.reading import clean

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
    kept = [region for region in regions if region.kind not in DROPPED]
    writer = _Composer(Mending(kept))
    named = {(entry.page + 1, heading_key(entry.words)): entry for entry in reversed(outline)}
    path: list[tuple[int, str]] = []
    title = ""
    for region in kept:
        words = " ".join(region.text.split())
        level = region.level if region.kind == "title" else None
        if (
            region.kind in ("title", "text")
            and len(region.lines) <= 3
            and (known := named.get((region.page, heading_key(words))))
        ):
            level = known.level + 1
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
        writer.heading(region)
        if level == 0:
            title = title or words
            continue
        path = [*(step for step in path if step[0] < level), (level, words)]
    writer.close(path)
    return Composed(writer.text, tuple(writer.sections), title)


def told(regions: Sequence[Region]) -> list[dict[str, Any]]:
    """Every region as JSON, for whoever checks it: kind, page from 1, box in points from the top left corner, text."""
    mending = Mending([region for region in regions if region.kind not in DROPPED])
    return [
        {
            "kind": region.kind,
            "page": region.page,
            "box": [round(value, 1) for value in region.box],
            "text": mending.text(region),
        }
        for region in regions
    ]


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

    def heading(self, region: Region) -> None:
        """Write a region that is in no section."""
        self.add(region)
        self._flush()

    def close(self, path: Sequence[tuple[int, str]]) -> None:
        """End the section at hand."""
        placed = self._flush()
        if placed:
            heading = tuple(words for _, words in path)
            self.sections.append(Section(heading, placed[0].start, placed[-1].end, placed[0].page, placed=placed))

    def _flush(self) -> tuple[PlacedText, ...]:
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
