"""Marks on a text that survive its way through Markdown: citation chips, highlights, doubts.

Marks are given by character offsets of the source text. `Marked.source` is that text with short inline markers in it,
placed where they cannot change how Markdown reads a line; `Marked.apply` turns the markers in the rendered, already
clean HTML into elements. `ui.safe_html` decides which HTML is allowed; this module only adds elements of its own, with
every text escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import TypeAlias

from markupsafe import Markup, escape


@dataclass(frozen=True, slots=True)
class Mark:
    """Something to be done with `text[start:end]`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Chip(Mark):
    """Replaces the text by a button that opens source `number`; `key` tells citations apart.

    `shown` is the number that people read.
    """

    number: int
    shown: int
    key: int
    label: str
    href: str = ""
    """With it a link leads there, on a page without scripts."""
    attributed: bool = False
    """Whether the server matched the sentence to the source: the model itself cited nothing."""


@dataclass(frozen=True, slots=True)
class Highlight(Mark):
    """Marks the text as what citation `key` stands on; without a key, as near to the question."""

    key: int | None


@dataclass(frozen=True, slots=True)
class Doubt(Mark):
    """Marks the text as not supported by its sources, or contradicted; `note` says so on hover and focus."""

    note: str
    contradicted: bool = False


@dataclass(frozen=True, slots=True)
class ReferenceMark(Mark):
    """Makes the text a button that shows an entry of the list of references, counted from 0."""

    reference: int


@dataclass(frozen=True, slots=True)
class LinkMark(Mark):
    """Makes the text a link to another document, at our own address `href`."""

    href: str


_ATTRIBUTED = "matched by the server, not cited by the model"

Wrapping: TypeAlias = Highlight | Doubt | ReferenceMark | LinkMark
Annotation: TypeAlias = Chip | Wrapping

# Markers need two characters that Markdown takes for punctuation (so that `**bold.**` still closes
# before one) and that the text itself does not contain. These are all but unused punctuation marks.
DELIMITERS = [chr(code) for code in (*range(0x10A50, 0x10A59), *range(0x11A9E, 0x11AA3), *range(0x16E97, 0x16E9B))]
_ONLY_MARKUP = re.compile(
    r"[ \t>]*(?:`{3,}[^`\n]*|~{3,}[^\n]*|(?:!!!|\?\?\?\+?|/{3,}|:{3,})(?:[ \t]*[A-Za-z][^\n]*)?|[-=*_|: \t>]*)"
)
_ADDRESS = re.compile(r"\]\([^()\n]*\)|</?[a-zA-Z][^<>\n]*>|^ {0,3}\[[^\]\n]+\]:[^\n]*$", re.MULTILINE)
_LINE_OPENING = re.compile(r"(?:[ \t]*(?:[-*+]|\d{1,9}[.)]|#{1,6}|>|\|)[ \t]+)+|[ \t]*\|[ \t]*")


def bounded(annotations: Sequence[Annotation], length: int) -> list[Annotation]:
    """Those that lie within a text of `length` characters, in order, chips never overlapping."""
    inside: list[Annotation] = []
    chip_end = 0
    for mark in sorted(annotations, key=lambda mark: (mark.start, mark.end)):
        if not 0 <= mark.start < mark.end <= length:
            continue
        if isinstance(mark, Chip):
            if mark.start < chip_end:
                continue
            chip_end = mark.end
        inside.append(mark)
    return inside


def _line_bounds(text: str, at: int) -> tuple[int, int]:
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    return start, len(text) if end < 0 else end


def _settle_start(text: str, at: int, limit: int) -> int:
    """The first place from `at` where a marker is text, not part of a list bullet, fence or table rule."""
    while at < limit:
        start, end = _line_bounds(text, at)
        if _ONLY_MARKUP.fullmatch(text, start, end):
            at = end + 1
            continue
        bullet = _LINE_OPENING.match(text, start, end)
        if bullet and at < bullet.end():
            at = bullet.end()
        while at < limit and text[at] in " \t":
            at += 1
        if at < limit and text[at] != "\n":
            return at
        at += 1
    return limit


def _settle_end(text: str, at: int, limit: int) -> int:
    """The last place up to `at` where a marker is text."""
    while at > limit:
        start, end = _line_bounds(text, at)
        if at == start or _ONLY_MARKUP.fullmatch(text, start, end):
            at = start - 1
            continue
        while at > start and text[at - 1] in " \t|":
            at -= 1
        if at > start:
            return at
    return limit


def _outside(addresses: Sequence[tuple[int, int]], at: int) -> int:
    """`at`, or the end of the link address it lies in."""
    return next((end for start, end in addresses if start < at < end), at)


class Marked:
    """A text with its annotations, ready for Markdown (`source`) and back (`apply`).

    In a `plain` text markers stand where marks begin and end, for it is only escaped.
    """

    def __init__(self, text: str, annotations: Sequence[Annotation], *, plain: bool = False) -> None:
        self._plain = plain
        self._marks = bounded(annotations, len(text))
        free = [char for char in DELIMITERS if char not in text]
        if len(free) < 2:
            text = text.translate({ord(char): " " for char in DELIMITERS})
            free = DELIMITERS
        self._open, self._close = free[:2]
        self._marker = re.compile(f"{self._open}([sxe])(\\d+){self._close}")
        self.source = self._insert(text)

    def _insert(self, text: str) -> str:
        # Position, order at the same position (ends before starts), kind, index, characters replaced.
        places: list[tuple[int, int, str, int, int]] = []
        addresses = [] if self._plain else [match.span() for match in _ADDRESS.finditer(text)]
        for index, mark in enumerate(self._marks):
            if isinstance(mark, Chip):
                # In a line that is nothing but markup (what opens an admonition, say) its text stays as it is.
                markup = _ONLY_MARKUP.fullmatch(text, *_line_bounds(text, mark.start))
                if self._plain or (_outside(addresses, mark.start) == mark.start and not markup):
                    places.append((mark.start, 1, "x", index, mark.end - mark.start))
                continue
            start, end = mark.start, mark.end
            if not self._plain:
                start = _outside(addresses, _settle_start(text, start, end))
                end = _outside(addresses, _settle_end(text, end, start))
            if start < end:
                places += [(start, 2, "s", index, 0), (end, 0, "e", index, 0)]
        pieces: list[str] = []
        at = 0
        for position, _, kind, index, replaced in sorted(places):
            pieces += [text[at : max(at, position)], f"{self._open}{kind}{index}{self._close}"]
            at = max(at, position + replaced)
        return "".join((*pieces, text[at:]))

    def apply(self, html: str) -> Markup:
        """Turn the markers in clean HTML into elements."""
        writer = _Writer(self._marks, self._marker)
        writer.feed(html)
        writer.close()
        return Markup("".join(writer.pieces))


class _Writer(HTMLParser):
    """Copies well-formed HTML and wraps each run of text in what is open around it."""

    def __init__(self, marks: Sequence[Annotation], marker: re.Pattern[str]) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._marks = marks
        self._marker = marker
        self._active: dict[int, Wrapping] = {}
        self._shown: set[int] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.pieces.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        self.pieces.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        at = 0
        for match in self._marker.finditer(data):
            self._write(data[at : match.start()])
            at = match.end()
            index = int(match[2])
            mark = self._marks[index]
            if isinstance(mark, Chip):
                self.pieces.append(str(chip_html(mark)))
            elif match[1] == "s":
                self._active[index] = mark
            else:
                self._active.pop(index, None)
        self._write(data[at:])

    def _write(self, text: str) -> None:
        if not text:
            return
        written = str(escape(text))
        if not text.strip() or not self._active:
            self.pieces.append(written)
            return
        opened, closed = "", ""
        for index, mark in self._active.items():
            tag = _start_tag(mark, first=index not in self._shown)
            opened, closed = opened + tag, f"</{tag[1:].partition(' ')[0]}>{closed}"
            self._shown.add(index)
        self.pieces.append(f"{opened}{written}{closed}")


def _start_tag(mark: Wrapping, *, first: bool) -> str:
    if isinstance(mark, ReferenceMark):
        return f'<button type="button" class="marker" data-action="reference" data-reference="{mark.reference}">'
    if isinstance(mark, LinkMark):
        return f'<a href="{escape(mark.href)}" class="inside">'
    if isinstance(mark, Highlight):
        return '<mark class="near">' if mark.key is None else f'<mark data-citation="{mark.key}">'
    focus = ' tabindex="0"' if first else ""
    kind, note = "doubt turned" if mark.contradicted else "doubt", escape(mark.note)
    return f'<span class="{kind}" data-note="{note}" title="{note}"{focus}>'


def chip_html(chip: Chip) -> Markup:
    """The button, or the link, that stands for a citation."""
    return Markup(
        '<a class="{kind}" href="{href}" aria-label="Source {shown}: {label}" title="{label}">{shown}</a>'
        if chip.href
        else '<button type="button" class="{kind}" data-action="cite" data-source="{number}" data-citation="{key}"'
        ' aria-label="Source {shown}: {label}" title="{label}">{shown}</button>'
    ).format(
        href=chip.href,
        kind="chip attributed" if chip.attributed else "chip",
        number=chip.number,
        shown=chip.shown,
        key=chip.key,
        label=f"{chip.label} ({_ATTRIBUTED})" if chip.attributed else chip.label,
    )
