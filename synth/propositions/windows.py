"""Windows: the stretches of a document that one request shows to a model.

Borders fall between sentences; a table row or a list item is never split, and a code block only between its
lines, where it alone is larger than a window. Sections share a window where they are short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from index.documents import Document, Section
from text.blocks import block_parser, line_starts
from text.sentences import sentences, trim

CountTokens = Callable[[str], int]

WINDOW_TOKENS = 600
_FULL_ENOUGH = 0.6


@dataclass(frozen=True, slots=True)
class WindowPart:
    """A stretch of one section: `document.text[start:end]`."""

    heading: tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class DocumentWindow:
    """Content of one request: pieces in reading order, and the number of the window in its document."""

    document: Document
    number: int
    pieces: tuple[WindowPart, ...]

    @property
    def heading(self) -> tuple[str, ...]:
        """The heading path above everything in the window."""
        common = self.pieces[0].heading
        for piece in self.pieces[1:]:
            same = 0
            while same < min(len(common), len(piece.heading)) and common[same] == piece.heading[same]:
                same += 1
            common = common[:same]
        return common

    @property
    def text(self) -> str:
        """The pieces' text; one with a deeper heading than the window's begins with that heading on a line."""
        shared = len(self.heading)
        parts: list[str] = []
        heading: tuple[str, ...] = self.heading
        for piece in self.pieces:
            if piece.heading != heading:
                if below := piece.heading[shared:]:
                    parts.append(f"## {' > '.join(below)}")
                heading = piece.heading
            parts.append(self.document.text[piece.start : piece.end])
        return "\n\n".join(parts)


def windows(document: Document, max_tokens: int, count_tokens: CountTokens) -> Iterator[DocumentWindow]:
    """The windows of a document, in order, none without words.

    Each counts at most `max_tokens` by `count_tokens`, unless a single sentence, row or list item is larger.
    """
    pieces: list[WindowPart] = []
    spent = number = 0
    for section in document.sections:
        units = list(_units(document.text, section, max_tokens, count_tokens))
        size = sum(tokens for _, _, tokens in units)
        # A section that fits into a window of its own is not torn for a few words of the one before it.
        if pieces and spent + size > max_tokens and (spent >= _FULL_ENOUGH * max_tokens or size <= max_tokens):
            yield DocumentWindow(document, number, tuple(pieces))
            pieces, spent, number = [], 0, number + 1
        for start, end, tokens in units:
            if pieces and spent + tokens > max_tokens:
                yield DocumentWindow(document, number, tuple(pieces))
                pieces, spent, number = [], 0, number + 1
            if pieces and pieces[-1].heading == section.heading and pieces[-1].start >= section.start:
                pieces[-1] = WindowPart(section.heading, pieces[-1].start, end)
            else:
                pieces.append(WindowPart(section.heading, start, end))
            spent += tokens
    if pieces:
        yield DocumentWindow(document, number, tuple(pieces))


def _units(text: str, section: Section, max_tokens: int, count_tokens: CountTokens) -> Iterator[tuple[int, int, int]]:
    """Return the pieces that are not split: start, end and tokens."""
    part = text[section.start : section.end]
    items = iter(list_items(part, lambda item: count_tokens(item) <= max_tokens))
    item = next(items, None)
    held: tuple[int, int] | None = None
    for sentence in sentences(part):
        while item is not None and sentence.start >= item[1]:
            item = next(items, None)
        start, end = sentence.start, sentence.end
        if item is not None and item[0] <= start:
            held = (held[0], end) if held is not None and held[0] >= item[0] else (start, end)
            if end < item[1] and part[end : item[1]].strip():
                continue
            start, end = held
        held = None
        if not any(map(str.isalnum, part[start:end])):
            continue
        tokens = max(1, count_tokens(part[start:end]))
        if sentence.kind == "code" and tokens > max_tokens and held is None:
            yield from _lines(part, section.start, start, end, max_tokens, count_tokens)
        else:
            yield section.start + start, section.start + end, tokens


def _lines(
    part: str, offset: int, start: int, end: int, max_tokens: int, count_tokens: CountTokens
) -> Iterator[tuple[int, int, int]]:
    """A long code block in stretches of whole lines."""
    first, spent = start, 0
    at = start
    for line in part[start:end].splitlines(keepends=True):
        tokens = count_tokens(line)
        if spent and spent + tokens > max_tokens:
            yield offset + first, offset + at, spent
            first, spent = at, 0
        at += len(line)
        spent += max(1, tokens)
    yield offset + first, offset + end, spent


def list_items(text: str, fits: Callable[[str], bool]) -> list[tuple[int, int]]:
    """Offsets of list items of `text`, in order and without overlap.

    The outermost ones; in the place of one that does not fit, the items within it, if there are any.
    """
    starts = line_starts(text)
    top = _Item(0, len(text), [])
    stack = [top]
    for token in block_parser(mdx=True).parse(text):
        if token.type == "list_item_open":
            first, last = token.map or (0, 0)
            end = min(starts[min(last, len(starts) - 1)], len(text))
            stack.append(_Item(*trim(text, starts[first], end), []))
            stack[-2].inner.append(stack[-1])
        elif token.type == "list_item_close":
            stack.pop()
    spans: list[tuple[int, int]] = []
    queue = top.inner[::-1]
    while queue:
        item = queue.pop()
        if item.inner and not fits(text[item.start : item.end]):
            queue.extend(item.inner[::-1])
        else:
            spans.append((item.start, item.end))
    return spans


@dataclass(frozen=True, slots=True)
class _Item:
    start: int
    end: int
    inner: list[_Item]
