"""Find the block that a sentence introduces, and read table rows as sentences.

"Add the package to your project:" says nothing without the code, list or table that follows. A row `| PDF | 50 MB |`
says nothing without its header, so a model reads "Format: PDF; Largest: 50 MB.". Users see the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import regex

from text.blocks import Block, block_parser, blocks, line_starts
from text.sentences import trim

LONGEST = 2000
"""Characters of what follows; of more, whole lines up to here."""

LEADS_IN = regex.compile(r"[:：][*_\s]*$")
ITEM = regex.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s")

_FRAME = regex.compile(r"\s*(?:/{3,}|:{3,}|!!!|\?\?\?|===|<)[^\n]*")
"""What only opens or closes a box, a tab or an element."""


def sequel_end(text: str, end: int) -> int:
    """The end of what the sentence `text[..:end]` leads to; `end` where that is no code, list or table."""
    blocks = _blocks(text)
    own = next((block for block in blocks if block.start < end <= block.end), None)
    if own is not None and text[end : own.end].strip(" *_"):
        return end
    following = [block for block in blocks if block.start >= end]
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


_ROW = regex.compile(r"\s*\|(?=.*[^\s|:-]).*\|\s*")
_DASHES = regex.compile(r"\s*\|?(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?\s*)?")
_BAR = regex.compile(r"(?<!\\)\|")


def table_rows(text: str) -> dict[int, str]:
    """Every row of the Markdown tables of `text` as a sentence, by its offset; headers say nothing.

    `| PDF | 50 MB |` below `| Format | Limit |` becomes `Format: PDF; Limit: 50 MB.`
    """
    starts = line_starts(text)
    return {trim(text, starts[line], starts[line + 1] - 1)[0]: row or "" for line, row in _rows(text)}


def head_above(text: str, start: int) -> str:
    """The header of the Markdown table whose row begins at `start`, with the line below it; empty for anything else."""
    if not table_rows(text).get(start):
        return ""
    above = text[:start].rstrip(" ").removesuffix("\n").split("\n")
    for n in range(len(above) - 1, 0, -1):
        if _DASHES.fullmatch(above[n]):
            return f"{above[n - 1].strip()}\n{above[n].strip()}\n"
    return ""


def with_rows_said(text: str) -> str:
    """`text` with the rows of its tables as sentences, a line each, and without their headers.

    Where a passage begins within a table, nobody knows the names of its columns: the cells alone are said.
    """
    rows = dict(_rows(text))
    if not rows:
        return _going_on(text)
    dashes = {line + 1 for line, row in rows.items() if row is None}
    lines = ((n, rows.get(n, line)) for n, line in enumerate(text.split("\n")) if n not in dashes)
    return "\n".join(line or "" for n, line in lines if line or n not in rows)


def _going_on(text: str) -> str:
    """`text` with the rows that it begins with, below a header that is not there, as lists of their cells."""
    lines = text.split("\n")
    for n, line in enumerate(lines):
        if not _ROW.fullmatch(line):
            break
        cells = (" ".join(cell.replace("\\|", "|").split()) for cell in _BAR.split(line.strip()[1:-1]))
        lines[n] = f"{'; '.join(cell for cell in cells if cell).rstrip('.')}."
    return "\n".join(lines)


def _rows(text: str) -> Iterator[tuple[int, str | None]]:
    """The line of each row and what it says, None for a header."""
    if "|" not in text:
        return
    header, row, line = list[str](), list[str](), 0
    in_row = False
    for token in block_parser().parse(text):
        if token.type == "table_open":
            header = []
        elif token.type == "tr_open" and token.map is not None:
            row, line, in_row = [], token.map[0], True
        elif token.type == "inline" and in_row:
            row.append(" ".join(token.content.split()))
        elif token.type == "tr_close":
            in_row = False
            yield line, _sentence(header, row) if header else None
            header = header or row


def _sentence(header: list[str], cells: list[str]) -> str:
    named = [f"{name}: {cell}" if name else cell for name, cell in zip(header, cells, strict=False) if cell]
    return f"{'; '.join(named).rstrip('.')}." if named else ""
