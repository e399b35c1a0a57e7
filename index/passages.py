"""Passages: the stretches of a document that are embedded, scored and cited.

Sections are split at sentence borders into windows of the encoder; a code block or table row is cut
only where it alone is longer than the window. A passage that begins within a table or code carries the
header or the fence's line (`OPENING`). Two sections never share a passage: its title and heading path are
part of what is searched.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from index.documents import OPENING, Document, Passage, PlacedText, Section
from text.sentences import sentences, trim

# What a border costs, in parts of a further passage: within a paragraph; behind words that announce
# what follows ("for example:", the opening line of an admonition); and a window left unfilled.
_MID_PARAGRAPH = 0.35
_AFTER_LEAD = 0.6
_UNEVEN = 0.5
_WORD = re.compile(r"\S+\s*")
_CLOSING = re.compile(r"(?:[^\w\s]|_)+$|</[^>]*>$")
_LEAD = re.compile(r"(?s:.*)[:：]$|(?:///|:::|!!!|\?\?\?)[^\n]*\w[^\n]*$")
# Longest word that may stay whole, in characters: above it a "word" is data or a script without blanks.
_MAX_WORD = 64
# A title is shortened to about this many characters before the innermost heading is given up.
_SHORT_TITLE = 60
# Longest header of a table, or line of a fence, that a passage carries, in characters.
_LONGEST_OPENING = 600
_FENCE = re.compile(r"[ \t]*(?:`{3,}|~{3,})[^\n`]*$")

CountTokens = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece that is not cut: a sentence, row, code block or a part of one; offsets into the document.

    `opening` opens the table or code in the middle of which it begins; it `leads` to what follows it.
    """

    start: int
    end: int
    tokens: int
    opens: bool
    leads: bool = False
    opening: str = ""


def split(document: Document, max_tokens: int, count_tokens: CountTokens, at_most: int | None = None) -> list[Passage]:
    """The passages of `document` in reading order; `document.text[p.start:p.end] == p.text` for each.

    `count_tokens` counts without special tokens; it is called about once for each sentence. No
    passage's `indexed_text` (title, heading path and text) counts above `max_tokens`, as long as a
    text's tokens are those of its words. Where title and headings alone would take more than half
    of that, outer headings are left out, then the title is shortened. Sections of a verbatim document
    come as they are, whatever their length and number; those without any words are left out. Ids are hashes (hex)
    of document id, offsets and indexed text, or the section's own `passage_id`. Of more than `at_most` passages
    only the first so many are made.
    """
    if max_tokens < 1:
        raise ValueError(f"max_tokens is {max_tokens}: a passage needs at least one token")
    if document.verbatim:
        whole = (
            _passage(document, part, document.title, part.heading, part.start, part.end) for part in document.sections
        )
        return [passage for passage in whole if passage.indexed_text.strip()]
    passages: list[Passage] = []
    prefixes: dict[tuple[str, ...], tuple[str, tuple[str, ...], int]] = {}
    for section in document.sections:
        if section.heading not in prefixes:
            prefixes[section.heading] = _prefix(document.title, section.heading, max_tokens, count_tokens)
        title, heading, room = prefixes[section.heading]
        pieces = units(document.text, section, room, count_tokens)
        if at_most is not None:
            pieces = _first(pieces, (at_most - len(passages)) * room)
        passages += [_passage(document, section, title, heading, *span) for span in _packed(list(pieces), room)]
        if at_most is not None and len(passages) >= at_most:
            return passages[:at_most]
    return passages


def _passage(
    document: Document, section: Section, title: str, heading: tuple[str, ...], start: int, end: int, opening: str = ""
) -> Passage:
    metadata = {**document.passage_metadata, **section.metadata} if section.metadata else document.passage_metadata
    if opening:
        metadata = {**metadata, OPENING: opening}
    text = document.text[start:end]
    boxes = boxes_of(section.placed, start, end)
    page = boxes[0].page if boxes else section.page
    passage = Passage(section.passage_id, document.id, title, text, start, end, heading, page, metadata, boxes)
    if section.passage_id:
        return passage
    digest = hashlib.blake2b(digest_size=16)
    for part in (document.id, "section", str(start), str(end), passage.indexed_text):
        digest.update(part.encode("utf-8", "surrogatepass"))
        digest.update(b"\x00")
    return replace(passage, id=digest.hexdigest())


def boxes_of(placed: Sequence[PlacedText], start: int, end: int) -> tuple[PlacedText, ...]:
    """Where the text from `start` to `end` stands: its lines, joined as long as they go on downwards in one column."""
    boxes: list[PlacedText] = []
    for line in placed[bisect_right(placed, start, key=lambda placed_line: placed_line.end) :]:
        if line.start >= end:
            break
        box = PlacedText(start, end, *line[2:])
        last = boxes[-1] if boxes else None
        same = last is not None and (last.page, last.region) == (box.page, box.region)
        if last and same and box.y1 > last.y0 and box.x0 < last.x1 and box.x1 > last.x0:
            x0, y0, x1, y1 = min(last.x0, box.x0), min(last.y0, box.y0), max(last.x1, box.x1), max(last.y1, box.y1)
            boxes[-1] = box._replace(x0=x0, y0=y0, x1=x1, y1=y1)
        else:
            boxes.append(box)
    return tuple(boxes)


def _prefix(
    title: str, heading: tuple[str, ...], max_tokens: int, count_tokens: CountTokens
) -> tuple[str, tuple[str, ...], int]:
    """Title and heading path as they fit, and the tokens they leave for the text (at least 1)."""
    limit = max_tokens // 2
    while True:
        probe = Passage("", "", title, "", 0, 0, heading).indexed_text
        tokens = count_tokens(probe) if probe else 0
        if tokens <= limit or not (title or heading):
            return title, heading, max(1, max_tokens - tokens)
        if len(heading) > 1:
            heading = heading[1:]
        elif len(title) > _SHORT_TITLE or not heading:
            half = title[: len(title) // 2].rstrip(" …")
            title = f"{half}…" if len(half) > 1 else ""
        else:
            heading = ()


def units(text: str, section: Section, room: int, count_tokens: CountTokens) -> Iterator[Unit]:
    """The pieces of a section that are not cut further, each of at most `room` tokens."""
    header = ""
    for sentence in sentences(text[section.start : section.end]):
        start, end = section.start + sentence.start, section.start + sentence.end
        # Only a header has a second line, that of dashes.
        heads = sentence.kind == "row" and "\n" in text[start:end]
        header = header if sentence.kind == "row" and not heads else ""
        # Nothing is free: a window holds only so many, and an encoder may count a word of any length as one.
        tokens = max(1, count_tokens(text[start:end]), (end - start) // _MAX_WORD)
        # A line of marks or a closing tag ends what stands before it.
        opens = sentence.opens and not _CLOSING.match(text, start, end)
        if tokens <= room:
            yield Unit(start, end, tokens, opens, heads or bool(_LEAD.match(text, start, end)), header)
        else:
            fence = text[start:end].partition("\n")[0] if sentence.kind == "code" else ""
            opening = fence if _FENCE.match(fence) else ""
            for unit in _cut(text, start, end, room, count_tokens, by_line=sentence.kind == "code"):
                yield Unit(unit.start, unit.end, unit.tokens, opens, opening=header if opens else opening)
                opens = False
        if heads:
            header = text[start:end] if end - start <= _LONGEST_OPENING else ""


def _first(units: Iterator[Unit], tokens: int) -> Iterator[Unit]:
    """Yield units until they have more than so many tokens: what further passages would hold is not looked at."""
    for unit in units:
        yield unit
        tokens -= unit.tokens
        if tokens < 0:
            return


def _cut(text: str, start: int, end: int, room: int, count_tokens: CountTokens, by_line: bool) -> Iterator[Unit]:
    """Parts of what is too long: at line ends (code), else at blanks, else (no blanks) anywhere."""
    pieces = _lines(text, start, end) if by_line else _words(text, start, end)
    first, last, total = start, start, 0
    for piece_start, piece_end in pieces:
        tokens = count_tokens(text[piece_start:piece_end])
        if total + tokens > room and last > first:
            yield from _unit(text, first, last, total)
            first, total = piece_start, 0
        if tokens > room:
            yield from _shatter(text, piece_start, piece_end, room, count_tokens, by_line)
            first = last = piece_end
            continue
        last, total = piece_end, total + tokens
    yield from _unit(text, first, last, total)


def _shatter(text: str, start: int, end: int, room: int, count_tokens: CountTokens, was_line: bool) -> Iterator[Unit]:
    """A single piece that alone is too long: a line at its blanks, a word by halves."""
    if was_line:
        yield from _cut(text, start, end, room, count_tokens, by_line=False)
    elif end - start == 1:
        yield from _unit(text, start, end, room)  # one character that counts more than the window
    else:
        middle = (start + end) // 2
        for half in ((start, middle), (middle, end)):
            tokens = count_tokens(text[half[0] : half[1]])
            if tokens <= room:
                yield from _unit(text, *half, tokens)
            else:
                yield from _shatter(text, *half, room, count_tokens, False)


def _unit(text: str, start: int, end: int, tokens: int) -> Iterator[Unit]:
    start, end = trim(text, start, end)
    if start < end:
        yield Unit(start, end, tokens, False)


def _lines(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end:
        stop = text.find("\n", start, end)
        stop = end if stop < 0 else stop + 1
        yield start, stop
        start = stop


def _words(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for word in _WORD.finditer(text, start, end):
        for at in range(word.start(), word.end(), _MAX_WORD):
            yield at, min(at + _MAX_WORD, word.end())


def _packed(units: list[Unit], room: int) -> Iterator[tuple[int, int, str]]:
    """Neighbouring units joined into as few and as even windows as borders of paragraphs allow, with what opens each.

    The cheapest way to cut is found from the end backwards: each passage costs 1, more if it stays
    far from full or ends within a paragraph.
    """
    count = len(units)
    best = [0.0] * (count + 1)
    upto = [count] * (count + 1)
    for first in range(count - 1, -1, -1):
        best[first] = float("inf")
        tokens = 0
        for last in range(first, count):
            tokens += units[last].tokens
            if tokens > room and last > first:
                break
            slack = max(0, room - tokens) / room
            cost = 1 + _UNEVEN * slack * slack + best[last + 1]
            if last + 1 < count:
                cost += _AFTER_LEAD if units[last].leads else 0 if units[last + 1].opens else _MID_PARAGRAPH
            if cost < best[first]:
                best[first], upto[first] = cost, last + 1
    first = 0
    while first < count:
        yield units[first].start, units[upto[first] - 1].end, units[first].opening
        first = upto[first]
