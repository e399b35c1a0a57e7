"""Table rows said as sentences, for a model to read.

A small model that is shown `| PDF | 50 MB |` writes it down like that, and of a row whose header was left out nobody
can tell what it says. Only the model's copy is changed: people see the table, and citations point into it.
"""

from __future__ import annotations

from collections.abc import Iterator

import regex

from text.blocks import block_parser, line_starts
from text.sentences import trim

_ROW = regex.compile(r"\s*\|(?=.*[^\s|:-]).*\|\s*")
_DASHES = regex.compile(r"\s*\|?(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?\s*)?")
_BAR = regex.compile(r"(?<!\\)\|")


def table_rows(text: str) -> dict[int, str]:
    """Every row of the Markdown tables of `text` as a sentence, by its offset; headers say nothing.

    `| PDF | 50 MB |` below `| Format | Limit |` becomes `Format: PDF; Limit: 50 MB.`
    """
    starts = line_starts(text)
    return {trim(text, starts[line], starts[line + 1] - 1)[0]: said or "" for line, said in _rows(text)}


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
    dashes = {line + 1 for line, said in rows.items() if said is None}
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
