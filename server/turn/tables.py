"""Read Markdown tables: rows as sentences, the header above a row, and the rows that a question names.

A row `| PDF | 50 MB |` says nothing without its header, so a model reads "Format: PDF; Largest: 50 MB.". People see the
row below its header. Where a question names a cell (a version, an option, a name), only the rows that hold just this
cell may be quoted: 2.53 is neither 2.5 nor 2.37.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import regex

from text.blocks import block_parser, line_starts, without_links
from text.sentences import trim

_ROW = regex.compile(r"\s*\|(?=.*[^\s|:-]).*\|\s*")
_BAR = regex.compile(r"(?<!\\)\|")


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row: its line, `text[start:end]` without blanks around it, and its cells on one line each."""

    line: int
    start: int
    end: int
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MarkdownTable:
    """A table with its header; `body` is the end of the line of dashes below it."""

    header: TableRow
    body: int
    rows: tuple[TableRow, ...]

    @property
    def start(self) -> int:
        return self.header.start

    @property
    def end(self) -> int:
        return self.rows[-1].end if self.rows else self.body

    def said(self, row: TableRow) -> str:
        """Return a row as a sentence: each cell with the name of its column."""
        pairs = zip(self.header.cells, row.cells, strict=False)
        named = [f"{name}: {cell}" if name else cell for name, cell in pairs if cell]
        return f"{'; '.join(named).rstrip('.')}." if named else ""


@lru_cache(256)
def tables(text: str) -> tuple[MarkdownTable, ...]:
    """Return the tables of `text`, in reading order."""
    if "|" not in text:
        return ()
    starts = line_starts(text)
    result = list[MarkdownTable]()
    header, rows, cells = None, list[TableRow](), list[str]()
    line = 0
    in_row = False
    for token in block_parser().parse(text):
        if token.type == "table_open":
            header, rows = None, []
        elif token.type == "tr_open" and token.map is not None:
            cells, line, in_row = [], token.map[0], True
        elif token.type == "inline" and in_row:
            cells.append(" ".join(token.content.split()))
        elif token.type == "tr_close":
            in_row = False
            row = TableRow(line, *trim(text, starts[line], starts[line + 1] - 1), tuple(cells))
            header, rows = (row, rows) if header is None else (header, [*rows, row])
        elif token.type == "table_close" and header is not None:
            body = trim(text, header.end, starts[header.line + 2] - 1)[1]
            result.append(MarkdownTable(header, body, tuple(rows)))
    return tuple(result)


def table_at(text: str, start: int) -> tuple[MarkdownTable, TableRow] | None:
    """Return the row that begins at `start`, with its table; None where no row begins there."""
    for table in tables(text):
        if table.start <= start < table.end:
            return next(((table, row) for row in table.rows if row.start == start), None)
    return None


def table_rows(text: str) -> dict[int, str]:
    """Return every row of the tables of `text` as a sentence, by its offset; headers say nothing.

    `| PDF | 50 MB |` below `| Format | Limit |` becomes `Format: PDF; Limit: 50 MB.`
    """
    rows = {row.start: table.said(row) for table in tables(text) for row in table.rows}
    return {table.start: "" for table in tables(text)} | rows


def head_above(text: str, start: int) -> str:
    """Return the header of the table whose row begins at `start`, with the line below it; empty for anything else."""
    place = table_at(text, start)
    if place is None or not any(place[1].cells):
        return ""
    lines = text[place[0].start : place[0].body].split("\n")
    return "".join(f"{line.strip()}\n" for line in lines)


def with_rows_said(text: str) -> str:
    """Return `text` with the rows of its tables as sentences, a line each, and without their headers.

    Where a passage begins within a table, nobody knows the names of its columns: the cells alone are said.
    """
    if not (listed := tables(text)):
        return _going_on(text)
    texts = {row.line: table.said(row) for table in listed for row in table.rows}
    heads = {table.header.line + more for table in listed for more in (0, 1)}
    lines = ((n, texts.get(n, line)) for n, line in enumerate(text.split("\n")) if n not in heads)
    return "\n".join(line for n, line in lines if line or n not in texts)


def _going_on(text: str) -> str:
    """Return `text` with the rows that it begins with, below a header that is not there, as lists of their cells."""
    lines = text.split("\n")
    for n, line in enumerate(lines):
        if not _ROW.fullmatch(line):
            break
        cells = (" ".join(cell.replace("\\|", "|").split()) for cell in _BAR.split(line.strip()[1:-1]))
        lines[n] = f"{'; '.join(cell for cell in cells if cell).rstrip('.')}."
    return "\n".join(lines)


_WORDS = regex.compile(r"[\p{L}\p{N}]")
_PARTS = regex.compile(r"\s*(?:<br\s*/?>|,|;|\s/\s|\s\|\s|\bor\b|\band\b|\()\s*", regex.IGNORECASE)
_MARKS = regex.compile(r"[*_`\"'()\\]+")
_LONGEST_NAME = 40
_LITTLE = "yes no true false none all any - – n/a optional required default"
_SAYS_LITTLE = frozenset(_LITTLE.split())
_IDENTIFIES = regex.compile(r"\d|[\p{L}\p{N}][_.:/-][\p{L}\p{N}]|^--?\w|^[/.@$]\w")
_DOTTED = regex.compile(r"(?<![\p{L}\p{N}_.-])v?(\d+(?:\.\d+)+)(?![\p{L}\p{N}_]|\.\d)", regex.IGNORECASE)
_RANGE = regex.compile(r"v?(\d+(?:\.\d+)*)(?:\.x)?\s*(?:-|–|—|\bto\b)\s*v?(\d+(?:\.\d+)*)")
_NUMBER = regex.compile(r"(?<![\p{L}\p{N}_.-])v?(\d+(?:\.\d+)*)(?![\p{L}\p{N}_]|\.\d)")
_LARGE = regex.compile(r"(?<![\p{L}\p{N}_.-])(\d{3,})(?![\p{L}\p{N}_]|\.\d)")
_OPEN = regex.compile(
    r"[<>≤≥~^]|\d\+|[-–—…]|\b(?:to|above|below|up|since|before|after|later|earlier|newer|older|from|until|other|others"
    r"|any|all|latest|default)\b",
    regex.IGNORECASE,
)
_MOSTLY = 0.6
"""Share of the first column that are numbers, from which on the table is one of numbers."""


@dataclass(frozen=True, slots=True)
class NamedRows:
    """The rows of a table that may answer a question, and those that it names."""

    allowed: tuple[TableRow, ...]
    rows: tuple[TableRow, ...]


def named(wordings: Sequence[str], table: MarkdownTable) -> NamedRows:
    """Return which rows a question names, and which may answer it.

    `wordings` is the question as typed, then with its conversation, which tells only where its own words do not.
    """
    for question in dict.fromkeys(wordings):
        rows = _named(question, table)
        if rows.rows or len(rows.allowed) < len(table.rows):
            return rows
    return NamedRows(table.rows, ())


@lru_cache(256)
def _named(question: str, table: MarkdownTable) -> NamedRows:
    """Return the same of one text.

    A cell counts whole: 2.5 does not name the row of 2.53 (`3.13.x` is named by each of its releases). Where a cell
    that identifies something is named (a number, an option, a path, code), only the rows with most such cells may
    answer. Where the question has a number of the kind that the first column lists, and no row has that, no row may,
    besides those of ranges. A plain word of the first column names its row and forbids no other.
    """
    folded = " ".join(question.casefold().split())
    strong = [sum(_names(folded, cell) or _spans(folded, cell) for cell in row.cells) for row in table.rows]
    if (most := max(strong, default=0)) > 0:
        rows = tuple(row for row, count in zip(table.rows, strong, strict=True) if count == most)
        return NamedRows(rows, rows)
    keys = [row.cells[0] if row.cells else "" for row in table.rows]
    for kind in (_DOTTED, _LARGE):
        majors = {number.split(".")[0] for number in kind.findall(folded)}
        listed = sum(bool(kind.search(key)) for key in keys)
        beside = {number.split(".")[0] for row in table.rows for cell in row.cells[1:] for number in kind.findall(cell)}
        if majors and not (majors & beside) and listed >= max(2, _MOSTLY * len(keys)):
            return NamedRows(tuple(row for row, key in zip(table.rows, keys, strict=True) if _OPEN.search(key)), ())
    weak = tuple(row for row, key in zip(table.rows, keys, strict=True) if _names(folded, key, words=True))
    return NamedRows(table.rows, weak)


def _names(folded: str, cell: str, *, words: bool = False) -> bool:
    """Return whether `folded` (case folded) holds the whole of a cell, or of one of the things that it lists.

    Only what identifies something counts, or with `words` any words.
    """
    for part in {cell, *_PARTS.split(cell[: 10 * _LONGEST_NAME])}:
        name = " ".join(_MARKS.sub(" ", without_links(part)).casefold().split())
        if not 0 < len(name) <= _LONGEST_NAME or name in _SAYS_LITTLE or not _WORDS.search(name):
            continue
        identifies = _IDENTIFIES.search(name) or " " in name or part.strip().startswith("`")
        if (words or (identifies and not (name.isdecimal() and len(name) < 2))) and _whole(name).search(folded):
            return True
    return False


def _spans(folded: str, cell: str) -> bool:
    """Return whether a cell is a range of versions or large numbers that holds one of `folded`."""
    for low, high in _RANGE.findall(cell.casefold()):
        first, last = sorted(tuple(map(int, bound.split("."))) for bound in (low, high))
        for number in _NUMBER.findall(folded):
            parts = tuple(map(int, number.split(".")))
            # Releases of the last version of the range belong to it.
            within = first <= parts and parts[: len(last)] <= last
            if within and (len(parts) > 1) == (len(last) > 1) and (len(parts) > 1 or len(number) > 2):
                return True
    return False


@lru_cache(2048)
def _whole(name: str) -> regex.Pattern[str]:
    """Return the pattern of a name as a whole word or path; `1.2.x` stands for every release of 1.2.

    `https://ghcr.io/team` names neither the host nor the host with its scheme.
    """
    stem = regex.sub(r"(?:\.[x*])+$", "", regex.sub(r"^v(?=\d)", "", name))
    releases = r"(?:\.(?:\d+|x))*" if name.endswith((".x", ".*")) else ""
    before = r"(?<![\p{L}\p{N}_.-])v?" if stem[:1].isdigit() else r"(?<![\p{L}\p{N}_-]|://)"
    return regex.compile(rf"{before}{regex.escape(stem)}{releases}(?![\p{{L}}\p{{N}}_-]|[./][\p{{L}}\p{{N}}])")
