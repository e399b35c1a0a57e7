"""What a sentence leads to: the code, the list or the table below it, whole up to a bound.

"Add the package to your project:" says nothing without the block that follows. Found by blocks alone, whatever the
words are; which sentences are quoted, and how, is decided elsewhere.
"""

from __future__ import annotations

from functools import lru_cache

import regex

from text.blocks import Block, blocks
from text.sentences import trim

LONGEST = 2000
"""Characters of what follows; of more, whole lines up to here."""

LEADS_IN = regex.compile(r"[:：][*_\s]*$")
ITEM = regex.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s")

_FRAME = regex.compile(r"\s*(?:/{3,}|:{3,}|!!!|\?\?\?|===|<)[^\n]*")
"""What only opens or closes a box, a tab or an element."""


def sequel_end(text: str, end: int) -> int:
    """The end of what the sentence `text[..:end]` leads to; `end` where that is no code, list or table."""
    found = _blocks(text)
    own = next((block for block in found if block.start < end <= block.end), None)
    if own is not None and text[end : own.end].strip(" *_"):
        return end
    following = [block for block in found if block.start >= end]
    while following and following[0].kind == "prose" and _FRAME.fullmatch(_words(text, following[0])):
        following.pop(0)
    if not following:
        return end
    first, last = following[0], following[0]
    if first.kind == "prose" and not ITEM.match(_words(text, first)):
        return end
    for block in following[1:]:
        if not _goes_on(text, first, last, block):
            break
        last = block
    return last.end if last.end - end <= LONGEST else _cut(text, end, following)


def block_around(text: str, start: int, end: int, *, items: bool) -> tuple[int, int]:
    """The paragraph or item that `text[start:end]` lies in (with `items` only an item); the same in none."""
    for block in _blocks(text):
        if block.start <= start and end <= block.end and (not items or ITEM.match(_words(text, block))):
            return trim(text, block.start, block.end)
    return start, end


def _goes_on(text: str, first: Block, last: Block, block: Block) -> bool:
    """Whether `block` is of the same code, list or table."""
    if first.kind == "prose":
        return bool(ITEM.match(_words(text, block))) or _words(text, block)[:2].isspace()
    return first.kind == block.kind == "row" and text.count("\n", last.end, block.start) == 1


def _cut(text: str, end: int, following: list[Block]) -> int:
    """The last end of a block within the bound, or of a line."""
    within = [block.end for block in following if block.end - end <= LONGEST]
    line = text.rfind("\n", following[0].start, end + LONGEST)
    return within[-1] if within else max(line, end)


def _words(text: str, block: Block) -> str:
    return text[block.start : block.end]


@lru_cache(256)
def _blocks(text: str) -> tuple[Block, ...]:
    return tuple(blocks(text))
