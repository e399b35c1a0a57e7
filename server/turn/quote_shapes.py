"""Give quotes the shape that people can use: rows, whole code and steps, and nothing that says nothing.

Which sentence is quoted is chosen by `server.turn.evidence`. Here a chosen sentence grows into what it belongs to: the
row or the small table, the numbered steps, the code below it, the paragraph where its answer is doubtful. A quote stays
one stretch of its passage, word for word. `server.turn.quote_text` says how it is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import regex

from server.turn.events import Evidence
from server.turn.markdown_blocks import (
    FRAME,
    LEADS_IN,
    LONGEST,
    block_around,
    code_below,
    is_code,
    lead_above,
    sequel_end,
    step_lists,
)
from server.turn.support import Support
from server.turn.tables import MarkdownTable, TableRow, named, table_at, tables
from text.blocks import without_linked, without_links

PARAGRAPH = 600
"""Characters of a paragraph, an item or the steps that are quoted whole for one of their sentences."""
SMALL_ROWS = 6
SMALL_TABLE = 1200
"""Rows and characters of a table that is quoted whole where the question names none of its rows."""
ASIDE = 600
"""Characters of code that is quoted with the sentence above it where the question asks for no way to do something."""

_DOES = regex.compile(
    r"\bhow\b(?!\s+(?:many|much|long|often|old|far|big|large|fast)\b)|\b(?:steps?|commands?|codes?|examples?|snippets?"
    r"|scripts?|syntax|procedures?|instructions?|set ?up|show me|give me|(?:need|want|try|trying|like)\s+(?:an?|to)"
    r"|wie|cómo|comment|kommandos?|befehle?|beispiele?|ejemplos?|exemples?|commandes?)\b|如何|怎么|示例|كيف|أمر",
    regex.IGNORECASE,
)
_RULE = regex.compile(r"^[ \t]*[|+]?[ \t:]*[-=~^]{2,}[-=~^|+: \t]*$", regex.MULTILINE)
"""A line that separates a table's header from its body, or underlines a heading."""
_ENDS = regex.compile(r"[.!?:;。！？：；…](?:[*_`\"'”’)\]\s]|<br\s*/?>)*$")
_BOLD = regex.compile(r"\s*(?:[-*+]\s+)?(?:\*\*|__)[^*_\n]{1,80}(?:\*\*|__)\s*[:：]?\s*")
_POINTING = """
    a about also an and are article as at back be blog can chapter check com contents detail details docs documentation
    edit find fixme following for from full further guide guides here how http https in info information is learn link
    links list more next of on or our out overview page pages please post read reading refer reference references
    related resource resources s section sections see step steps table tbd that the this to toc todo top visit we well
    what wip with www you your
"""
_POINTS = frozenset(_POINTING.split())
"""Words of sentences that only point elsewhere."""
_STUB = regex.compile(
    r"[\W_]*(?:see also|see below|see above|next steps?|what(?:'|’)?s next|further reading|read more|learn more"
    r"|more information|related(?: \w+){0,2}|todo|tbd|fixme|wip|coming soon|work in progress|under construction"
    r"|(?:table of )?contents|on this page|toc|references?|resources|back to (?:the )?top|edit this page"
    r"|siehe auch|weiterführende links|voir aussi|véase también|另请参阅|انظر أيضا)\b[\W_]*",
    regex.IGNORECASE,
)
_OPENS_TODO = regex.compile(r"[\W_]*(?:todo|tbd|fixme)\b", regex.IGNORECASE)
_ADDRESS = regex.compile(r"\W*(?:https?|ftp|git|ssh)://\S*")
_WORD = regex.compile(r"[\p{L}\p{N}]+")


def asks_to_do(question: str) -> bool:
    """Return whether a question asks for a way to do something: steps, a command, an example."""
    return bool(_DOES.search(question))


def may_be_quoted(wordings: Sequence[str], sentence: str, quote: str, start: int, text: str, *, read: bool) -> bool:
    """Return whether the `quote` of a `sentence` that begins at `start` of a passage's `text` can be an answer.

    A heading, code alone and a stub cannot. A row can where it is `read` with the names of its columns, or named by
    the question, and no other row of its table is named in its place.
    """
    if place := table_at(text, start):
        rows = named(wordings, place[0])
        return place[1] in (rows.allowed if read else rows.rows)
    return not (is_code(text, start) or _is_frame(sentence) or is_stub(sentence) or is_stub(quote))


def _is_frame(sentence: str) -> bool:
    """Whether a sentence is a heading, code, or a table's header, which say nothing alone."""
    bare = sentence.strip()
    return bare.startswith(("#", "```", "~~~", "|")) or bool(_RULE.search(bare) or _BOLD.fullmatch(bare))


def is_stub(quote: str) -> bool:
    """Return whether a quote only points elsewhere, or says that something is still to be written."""
    text = "\n".join(line for line in quote.split("\n") if not FRAME.fullmatch(line))
    if _STUB.fullmatch(without_links(text)) or _OPENS_TODO.match(text):
        return True
    if _ADDRESS.fullmatch(text):
        return True
    besides = without_linked(text)
    said = [word.casefold() for word in _WORD.findall(besides)]
    return not said or (besides != text and all(word in _POINTS for word in said))


def finished(
    wordings: Sequence[str], quotes: Sequence[Support], evidence: Sequence[Evidence], *, doubted: bool
) -> list[Support]:
    """Return the quotes in their final shape, in order; what an earlier one holds already is left out.

    `doubted` quotes are given with the whole of their paragraph.
    """
    places = {passage.n: passage for passage in evidence}
    shaped = list[Support]()
    for quote in quotes:
        whole = shape(wordings, quote, places[quote.n], doubted=doubted)
        if not any(one.n == whole.n and one.start < whole.end and whole.start < one.end for one in shaped):
            shaped.append(whole)
    return shaped


def shape(wordings: Sequence[str], quote: Support, passage: Evidence, *, doubted: bool = False) -> Support:
    """Return a quote grown into what it belongs to."""
    text, start, end = passage.opened, quote.start - passage.origin, quote.end - passage.origin
    if span := _in_table(wordings, text, start, end) or _steps(wordings, text, start, end):
        return _placed(quote, passage, *span)
    if doubted:
        around = block_around(text, start, end, items=False)
        if around[1] - around[0] <= PARAGRAPH:
            start, end = around
    if LEADS_IN.search(text[start:end]):
        end = sequel_end(text, end)
    elif not text[start:end].startswith(("```", "~~~")):
        # Without a full stop a sentence goes on in the code below it.
        wanted = asks_to_do(wordings[0]) or not _ENDS.search(text[start:end])
        end = code_below(text, end, LONGEST if wanted else ASIDE)
    return _placed(quote, passage, start, end)


def _placed(quote: Support, passage: Evidence, start: int, end: int) -> Support:
    # What opens a passage is none of it.
    start = max(start, passage.start - passage.origin)
    origin = passage.origin
    return replace(quote, quote=passage.opened[start:end], start=origin + start, end=origin + end)


def _in_table(wordings: Sequence[str], text: str, start: int, end: int) -> tuple[int, int] | None:
    """The rows to quote where a quote is a row, or leads to a table; None for anything else."""
    if place := table_at(text, start):
        table, row = place
        rows = named(wordings, table).rows
        if row in rows:
            return _run(table, rows, row)
        small = len(table.rows) <= SMALL_ROWS and table.end - table.start <= SMALL_TABLE
        return (table.start, table.end) if small and not rows else (row.start, row.end)
    led = next((table for table in tables(text) if start < table.start < end), None)
    rows = named(wordings, led).rows if led else ()
    return _run(led, rows, rows[0]) if led and rows and len(rows) < len(led.rows) else None


def _run(table: MarkdownTable, rows: Sequence[TableRow], row: TableRow) -> tuple[int, int]:
    """The span of the neighbouring rows around `row` that are among `rows`, within the bound."""
    first = last = table.rows.index(row)
    while last + 1 < len(table.rows) and table.rows[last + 1] in rows:
        last += 1
    while first and table.rows[first - 1] in rows:
        first -= 1
    span = table.rows[first].start, table.rows[last].end
    return span if span[1] - span[0] <= LONGEST else (row.start, row.end)


def _steps(wordings: Sequence[str], text: str, start: int, end: int) -> tuple[int, int] | None:
    """The numbered steps around a quote with what leads to them; None where it is in none, or they are too long."""
    for first, last in step_lists(text):
        if not first <= start < last:
            continue
        if last - first <= (LONGEST if asks_to_do(wordings[0]) else PARAGRAPH):
            lead = lead_above(text, first)
            return (lead if last - lead <= LONGEST else first), max(last, end)
        if asks_to_do(wordings[0]):
            # Whole lines up to the bound, from the first step on where that reaches what is quoted.
            begin = first if end - first <= LONGEST else text.rfind("\n", 0, start) + 1
            return begin, max(text.rfind("\n", begin, begin + LONGEST), end)
    return None
