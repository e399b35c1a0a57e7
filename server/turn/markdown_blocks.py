"""Find the blocks around a sentence: what it leads to, the code below it, the paragraph, item or steps it lies in.

"Add the package to your project:" says nothing without the code, list or table that follows, and the third of five
steps does nothing without the others.
"""

from __future__ import annotations

from functools import lru_cache

import regex

from text.blocks import Block, block_parser, blocks, line_starts
from text.sentences import sentence_spans, trim

LONGEST = 2000
"""Characters of what follows; of more, whole lines up to here."""

LEADS_IN = regex.compile(r"[:：][*_\s]*$")
ITEM = regex.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s")

FRAME = regex.compile(r"\s*(?:/{3,}|:{3,}|!!!|\?\?\?|===|<)[^\n]*")
"""What only opens or closes a box, a tab or an element."""


def sequel_end(text: str, end: int) -> int:
    """The end of what the sentence `text[..:end]` leads to; `end` where that is no code, list or table."""
    blocks = _blocks(text)
    own = next((block for block in blocks if block.start < end <= block.end), None)
    if own is not None and text[end : own.end].strip(" *_"):
        return end
    following = [block for block in blocks if block.start >= end]
    while following and following[0].kind == "prose" and FRAME.fullmatch(_words(text, following[0])):
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


def code_below(text: str, end: int, longest: int = LONGEST) -> int:
    """The end of the code right below the paragraph that `text[..:end]` ends; `end` where that is none, or longer.

    Frames between them (the opening of a tab) are passed over.
    """
    blocks = _blocks(text)
    own = next((block for block in blocks if block.start < end <= block.end), None)
    if own is None or own.kind != "prose" or text[end : own.end].strip(" *_"):
        return end
    following = (block for block in blocks if block.start >= end)
    block = next((block for block in following if not FRAME.fullmatch(_words(text, block))), None)
    return block.end if block and block.kind == "code" and block.end - block.start <= longest else end


def is_code(text: str, at: int) -> bool:
    """Return whether the character at `at` is in a block of code."""
    return any(block.start <= at < block.end for block in _blocks(text) if block.kind == "code")


def fence_above(text: str, at: int) -> str:
    """The line that opens the code block within which `at` stands; empty for its first line, and outside of code."""
    inside = (block for block in _blocks(text) if block.kind == "code" and block.start < at < block.end)
    line = next((_words(text, block).partition("\n")[0] for block in inside), "")
    return line.strip()


def lead_above(text: str, start: int) -> int:
    """The start of the sentence above the block at `start` that leads to it by a colon; `start` where none does."""
    above = [block for block in _blocks(text) if block.end <= start and block.kind == "prose"]
    if not above or text[above[-1].end : start].strip() or not LEADS_IN.search(_words(text, above[-1])):
        return start
    return above[-1].start + sentence_spans(_words(text, above[-1]))[-1][0]


@lru_cache(256)
def step_lists(text: str) -> tuple[tuple[int, int], ...]:
    """The numbered lists of `text`, outermost only, with the text of their items.

    One whose numbers go on behind code that is not indented goes on.
    """
    starts = line_starts(text)
    found = list[tuple[int, int]]()
    depth = last = first = 0
    for token in block_parser(mdx=True).parse(text):
        depth += token.nesting if token.type.startswith("ordered_list") else 0
        if token.type == "ordered_list_open" and depth == 1 and token.map is not None:
            first, (begin, stop) = 0, token.map
            found.append(trim(text, starts[begin], starts[min(stop, len(starts) - 1)] - 1))
        elif token.type == "list_item_open" and depth == 1 and token.info.isdecimal():
            if not first and int(token.info) == last + 1 > 1 and len(found) > 1:
                (begin, _), (_, stop) = found[-2:]
                found[-2:] = [(begin, stop)]
            first = last = int(token.info)
    return tuple(found)


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
