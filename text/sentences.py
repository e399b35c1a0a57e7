"""Sentence borders with exact offsets, in any language.

Code fences and table rows count as one sentence each: their full stops end nothing. Headings,
passages and windows are left to `index.passages`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from text.blocks import BlockKind, blocks

_PART = 8_000
# The segmenter ends a sentence before the markup that closes it: "**Bold.** Next".
_CLOSERS = re.compile(r"[*_~`\"'”’»)\]]+(?=\s|$)")

# What the segmenter, which is told that everything is English, takes for an end: abbreviations that no English
# sentence ends with, and the ordinals of German.
_GOES_ON = re.compile(
    r"(?:\b(?:abb|bspw?|bzgl|bzw|evtl|fa|ggf|inkl|mme|nr|sog|sra|vgl|zzgl|dra)\."
    r"|\b(?:(?<!\bi )am|beim|das|dem|den|der|die|im|vom|zum|zur) \d{1,2}\.)\s*",
    re.IGNORECASE,
)
_LOOK_BACK = 12
_TERMINATORS = ".!?"
# A span of code; what looks like an end within it is code.
_CODE_SPAN = re.compile(r"(?<!`)(`{1,3})(?!`)[^`\n][^`]{0,198}(?<!`)\1(?!`)")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence, code block or table row: `text[start:end]`, without surrounding blanks.

    `opens` tells that it is the first of its block, so that a border before it also ends a
    paragraph, list item, code block or table row.
    """

    start: int
    end: int
    kind: BlockKind
    opens: bool


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Offsets (start, end) of every sentence of `text`, in order, without overlap.

    All that is not white space lies in some span. A code fence is one span, a table row is one.
    """
    return [(sentence.start, sentence.end) for sentence in sentences(text)]


def sentences(text: str) -> Iterator[Sentence]:
    """The sentences of `text`, in order. Line ends must be ``\\n`` for code and tables to be seen."""
    for block in blocks(text):
        if block.kind == "prose":
            first = True
            for start, end in _prose(text[block.start : block.end]):
                yield Sentence(block.start + start, block.start + end, "prose", first)
                first = False
        else:
            start, end = trim(text, block.start, block.end)
            if start < end:
                # Code keeps the indentation of its first line, or it would read askew.
                yield Sentence(block.start if block.kind == "code" else start, end, block.kind, True)


def trim(text: str, start: int, end: int) -> tuple[int, int]:
    """`start` and `end` moved inwards past white space; equal where nothing else is there."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def _prose(text: str) -> Iterator[tuple[int, int]]:
    for begin, finish in pairwise(_borders(text)):
        start, end = trim(text, begin, finish)
        if start < end:
            yield start, end


def _borders(text: str) -> Iterator[int]:
    """Where sentences begin and end, ascending, from 0 to the end of the text."""
    from sentencex import get_sentence_boundaries  # type: ignore[import-untyped]

    code = [match.span() for match in _CODE_SPAN.finditer(text)] if "`" in text else []
    code_ends = [end for _, end in code]
    at = 0
    yield 0
    while at < len(text):
        # The segmenter slows with the square of the length: long paragraphs are given in parts, and
        # the last sentence of a part, which may be cut short, begins the next one.
        part = text[at : at + _PART]
        # English abbreviations are the safe default: the terminators of every script are known anyway.
        ends = [int(boundary["end_index"]) for boundary in get_sentence_boundaries("en", part)]
        if at + len(part) < len(text):
            # Only a sentence longer than a part is cut within, and then between words.
            ends = ends[:-1] or [max(part.rfind(" "), part.rfind("\n")) + 1 or len(part)]
        here = at
        for end in ends:
            closers = _CLOSERS.match(text, here + end)
            stop = closers.end() if closers else here + end
            if end != ends[-1] and _goes_on(text[max(at, stop - _LOOK_BACK) : stop]):
                continue
            # "Fritz!Box", "app.kubernetes.io", "![image](…)": an end has a blank behind it, in scripts with blanks.
            if stop < len(text) and text[stop - 1] in _TERMINATORS and (text[stop].isalnum() or text[stop] == "["):
                continue
            span = bisect_right(code_ends, stop)
            if span < len(code) and code[span][0] < stop:
                continue
            if stop > at:
                yield stop
                at = stop


def _goes_on(end: str) -> bool:
    return any(match.end() == len(end) for match in _GOES_ON.finditer(end))
