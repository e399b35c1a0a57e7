"""A quote as spans that were kept, added or removed: the one form in which a changed quote is stored.

Bracket text is only how it is shown: quotes hold brackets of their own (`[2]`, `arr[0]`), and nobody could tell them
from ours. Kept and removed spans joined are the quote, byte for byte, whatever was made of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import regex

from text.blocks import blocks

SpanKind = Literal["kept", "added", "removed"]

_PROTECTED = regex.compile(
    r"(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)"  # code in a line
    r"|!?\[[^\[\]\n]*\]\([^()\s]*\)"  # a link
    r"|<[^<>\s][^<>\n]*>"  # a tag or an address in angle brackets
    r"|(?:https?|ftp)://[^\s<>\])}]+|www\.[^\s<>\])}]+"
    r"|\$[^$\n]{1,200}\$|\\\(.{1,200}?\\\)"  # mathematics
    r"|\[[^\[\]\n]{0,60}\]"  # [2], arr[0], [Smith 2019]
    r"|\((?:[^()\n]{0,80}\b(?:19|20)\d\d[a-z]?(?:[;,][^()\n]{0,80})?)\)",  # (Smith et al., 2019)
    regex.DOTALL,
)
_CLOSES = regex.compile(r"[.,;:!?)]")
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}_]+(?:['’\-./:][\p{L}\p{M}\p{N}_]+)*")


@dataclass(frozen=True, slots=True)
class QuoteSpan:
    """A stretch of a changed quote; an added one is without its brackets."""

    kind: SpanKind
    text: str


@dataclass(frozen=True, slots=True)
class Edit:
    """`text[start:end]` is taken out (nothing where both are equal), and `added` put behind it."""

    start: int
    end: int
    added: str = ""


def untouchable(text: str) -> list[tuple[int, int]]:
    """Code, links, tags, formulas and citations, in order: nothing is added within them or taken from them."""
    found = [(block.start, block.end) for block in blocks(text) if block.kind == "code"]
    inline = [match.span() for match in _PROTECTED.finditer(text)]
    found += [(start, end) for start, end in inline if not any(a < end and start < b for a, b in found)]
    return sorted(found)


def place_behind(text: str, at: int) -> int | None:
    """The first place from `at` on where an addition may stand: behind the word and the protected stretch that
    `at` is in. None within a code block, behind which nothing would be in its place."""
    fenced = [(block.start, block.end) for block in blocks(text) if block.kind == "code"]
    if any(start <= at <= end for start, end in fenced):
        return None
    moved = True
    while moved:
        moved = False
        for start, end in untouchable(text):
            if start < at < end:
                at, moved = end, True
        for word in _WORD.finditer(text, max(0, at - 200)):
            if word.start() >= at:
                break
            if at < word.end():
                at, moved = word.end(), True
    return at


def apply(text: str, edits: Iterable[Edit]) -> list[QuoteSpan]:
    """The spans that edits make of a text. Edits do not overlap; of additions in one place the first comes first."""
    spans: list[QuoteSpan] = []
    at = 0
    for edit in sorted(edits, key=lambda one: (one.start, one.end)):
        if edit.start < at:
            raise ValueError(f"edits overlap at {edit.start}")
        spans += [QuoteSpan("kept", text[at : edit.start]), QuoteSpan("removed", text[edit.start : edit.end])]
        spans.append(QuoteSpan("added", edit.added))
        at = edit.end
    spans.append(QuoteSpan("kept", text[at:]))
    return joined(spans)


def joined(spans: Iterable[QuoteSpan]) -> list[QuoteSpan]:
    """The same without empty spans, and with neighbours of one kind in one; additions stay apart."""
    found: list[QuoteSpan] = []
    for span in spans:
        if not span.text:
            continue
        if found and found[-1].kind == span.kind != "added":
            found[-1] = QuoteSpan(span.kind, found[-1].text + span.text)
        else:
            found.append(span)
    return found


def original(spans: Sequence[QuoteSpan]) -> str:
    """The quote as it stands in its document."""
    return "".join(span.text for span in spans if span.kind != "added")


def kept(spans: Sequence[QuoteSpan]) -> str:
    """What is left of the quote outside the brackets."""
    return "".join(span.text for span in spans if span.kind == "kept")


def bracketed(spans: Sequence[QuoteSpan]) -> str:
    """The quote as it is shown and copied: additions in brackets, what was removed left out."""
    text, after_addition = "", False
    for span in spans:
        if span.kind == "added":
            text += f"{'' if not text or text[-1].isspace() else ' '}[{span.text}]"
            after_addition = True
        elif span.kind == "kept":
            # `[…](` would be a link, `[…][` a reference.
            if after_addition and (_WORD.match(span.text) or span.text[0] in "(["):
                text += " "
            if text[-1:].isspace():
                # What was removed had a blank on either side, or a full stop behind it.
                text = text.rstrip() if _CLOSES.match(span.text) else text
                span = QuoteSpan("kept", span.text.removeprefix(" "))
            text += span.text
            after_addition = False
    return text
