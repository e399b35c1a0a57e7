"""Blocks and sentences of a text with exact offsets, in any language; links by their words, tables by their rows.

Offsets count characters of the text given, whose line ends must be ``\n``. A code fence or table row counts as one
sentence. Inline markup is never parsed, so hostile text stays cheap.

The grammar of links is that of CommonMark (0.31, sections 6.3 to 6.5), bounded: brackets and parentheses may nest once,
and what is longer than a bound stays as it is. Links in code stay. Attribute lists behind a link (`{ .md-button }`) are
Python-Markdown's.

A row `| PDF | 50 MB |` says nothing without its header, so a model reads "Format: PDF; Largest: 50 MB.". People see the
row below its header. Where a question names a cell (a version, an option, a name), only the rows that hold just this
cell may be quoted: 2.53 is neither 2.5 nor 2.37.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby, pairwise
from typing import Literal

import regex
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.admon import admon_plugin
from mdit_py_plugins.container import container_plugin

BlockKind = Literal["prose", "code", "row"]

# A container opens with a plain word (`:::tip[Title]`, `/// warning | Title`); `::: package.module`
# is a reference generator's directive that is never closed.
_CONTAINER = re.compile(r"\s*[A-Za-z][\w-]*(?=\s|[\[{|]|$)")


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of one kind: `words` is `text[start:end]`, without the last line end."""

    kind: BlockKind
    start: int
    end: int
    words: str


def line_starts(text: str) -> list[int]:
    """Where each line of `text` begins, and past the last one the place where the next would."""
    return [0, *(match.end() for match in re.finditer("\n", text)), len(text) + 1]


@cache
def block_parser(mdx: bool = False) -> MarkdownIt:
    """A parser whose tokens stop at blocks: tables, MkDocs and Docusaurus admonitions included.

    As in MDX, `mdx` reads indented lines as what they would be without indentation, and lets a tag
    on a line of its own begin no raw HTML: a code fence right below it is a code fence.
    """
    parser = MarkdownIt("commonmark").enable("table").disable(["inline", "text_join"])
    parser.use(admon_plugin)
    for marker in (":", "/"):
        parser.use(container_plugin, f"container{marker}", marker, lambda name, _: bool(_CONTAINER.match(name)))
    if mdx:
        parser.disable(["code", "html_block"])
    return parser


def blocks(text: str) -> Iterator[Block]:
    """The blocks of `text` in order; every line that is not blank lies in exactly one.

    The text may be of any format: indentation and lone tags are taken for prose, not for code.
    """
    starts = line_starts(text)
    # What no leaf block claims (fences of admonitions, link definitions) is prose between blank lines.
    owners: list[tuple[int, BlockKind] | None] = [
        (-1, "prose") if text[start:end].strip() else None for start, end in pairwise(starts)
    ]
    free = 0
    for number, (kind, first, last) in enumerate(_claims(block_parser(mdx=True).parse(text))):
        lines = range(max(first, free), min(last, len(owners)))
        owners[lines.start : lines.stop] = [(number, kind)] * len(lines)
        free = max(free, lines.stop)
    for owner, group in groupby(range(len(owners)), key=owners.__getitem__):
        if owner is not None:
            members = list(group)
            start, end = starts[members[0]], starts[members[-1] + 1] - 1
            yield Block(owner[1], start, end, text[start:end])


def _claims(tokens: list[Token]) -> Iterator[tuple[BlockKind, int, int]]:
    """Line ranges (first, one past the last) of the leaf blocks, in reading order."""
    in_table = False
    for token in tokens:
        if token.type in ("table_open", "table_close"):
            in_table = token.type == "table_open"
        if token.map is None:
            continue
        first, last = token.map
        if token.type == "thead_open":
            yield "row", first, last + 1  # the line of dashes belongs to the header
        elif token.type == "tr_open":
            yield "row", first, last
        elif token.type in ("fence", "code_block"):
            yield "code", first, last
        elif token.type == "html_block" or (token.type == "inline" and not in_table):
            yield "prose", first, last


_CODE = (
    r"(?P<code>\\.|^[ ]{0,12}(?P<fence>`{3,}|~{3,}).*?(?:^[ ]{0,12}(?P=fence)[^\n]*$|\Z)"
    r"|(?<!`)(?P<tick>`+)(?!`)(?:(?!\n\s*\n).){1,400}?(?<!`)(?P=tick)(?!`))"
)
_INNER = r"(?:[^\[\]\\`]|\\.|`[^`\n]{0,300}+`|!?\[(?:[^\[\]\\]|\\.){0,300}+\](?:\([^()\s]{0,500}+\))?){0,400}+"
_TITLE = r"(?:\s+(?:\"[^\"\n]{0,300}+\"|'[^'\n]{0,300}+'|\([^()\n]{0,300}+\)))?"
_ADDRESS = (
    r"(?:<(?P<pointed>[^<>\n]{0,1000}+)>"
    r"|(?P<address>(?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.){0,300}+\)){0,1000}+))"
)
_ATTRIBUTES = r"(?:\{:?[ ]?[.#\w][^{}\n]{0,200}+\})?"
_LINK = (
    rf"!?\[(?P<words>{_INNER})\]"
    rf"(?:\(\s*{_ADDRESS}{_TITLE}\s*\){_ATTRIBUTES}|\[(?P<name>[^\[\]\n]{{0,200}}+)\])"
)
_NOTE = r"(?P<note>\[\^[\w-]{1,40}\](?!:))"
_BARE = r"<(?P<bare>(?:https?://|mailto:)[^<>\s]{1,1000}+)>"
_ANY = regex.compile(rf"{_CODE}|{_LINK}|{_NOTE}|{_BARE}", regex.MULTILINE | regex.DOTALL)
_POINTS = regex.compile(r"\W*(?:here|this|link|this (?:link|page|one)|hier|ici|aquí)\W*", regex.IGNORECASE)
_PLACES = 3
"""How deep images in links are looked for."""


def without_links(text: str) -> str:
    """Return `text` with links as their words, images as their descriptions, and without marks of footnotes.

    A link whose words only point ("here") keeps its web address in parentheses behind them, or nobody could follow it.
    Code fences and code spans stay as they are.
    """
    return _said(text, _PLACES) if "[" in text or "<" in text else text


def without_linked(text: str) -> str:
    """Return `text` without its links, images and bare addresses: what it says besides pointing elsewhere."""
    return str(_ANY.sub(lambda match: match[0] if match["code"] else " ", text))


def _said(text: str, depth: int) -> str:
    def words_of(match: regex.Match[str]) -> str:
        if match["code"]:
            return str(match[0])
        if match["note"]:
            return ""
        if match["bare"]:
            return str(match["bare"])
        if match["name"] is not None and (not match["words"].strip() or match["name"].strip().isdigit()):
            return str(match[0])  # rather an index, `a[0][1]`, than the name of an address
        words = _said(match["words"], depth - 1) if depth else match["words"]
        address = match["pointed"] or match["address"] or ""
        pointing = _POINTS.fullmatch(words) and address.startswith(("https://", "http://"))
        return f"{words} ({address})" if pointing else words

    return str(_ANY.sub(words_of, text))


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
        opens = True
        for begin, finish in pairwise(_borders(block.words) if block.kind == "prose" else (0, len(block.words))):
            start, end = trim(text, block.start + begin, block.start + finish)
            if start < end:
                # Code keeps the indentation of its first line, or it would read askew.
                yield Sentence(block.start if block.kind == "code" else start, end, block.kind, opens)
                opens = False


def trim(text: str, start: int, end: int) -> tuple[int, int]:
    """`start` and `end` moved inwards past white space; equal where nothing else is there."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


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
            before = text[max(at, stop - _LOOK_BACK) : stop]
            if end != ends[-1] and any(match.end() == len(before) for match in _GOES_ON.finditer(before)):
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
    for token in block_parser().parse(text):
        if token.type == "table_open":
            header, rows = None, []
        elif token.type == "tr_open" and token.map is not None:
            cells, line = [], token.map[0]
        elif token.type == "inline":
            cells.append(" ".join(token.content.split()))
        elif token.type == "tr_close":
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
