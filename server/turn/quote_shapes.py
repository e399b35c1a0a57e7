"""Give quotes the shape that people can use, and show them: rows, whole code and steps, definitions, no dangling stubs.

`server.turn.evidence` chooses the sentence. Here it grows into what it belongs to: the row or the small table, the
numbered steps, the code below it ("Add the package to your project:" says nothing without it), the paragraph where its
answer is doubtful. A quote stays one stretch of its passage, word for word; only what people read differs: below its
header, with its fences closed, its links as words, and a mark where it was cut. Where a question asks what something
is, the sentence that says so is found by its form, in the page languages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import dropwhile
from textwrap import dedent

import regex

from server.turn.events import Evidence
from server.turn.support import Support
from server.turn.system_messages import unformatted
from text.sanitize import sanitize_text
from text.sentences import (
    Block,
    MarkdownTable,
    TableRow,
    block_parser,
    blocks,
    head_above,
    line_starts,
    named,
    sentence_spans,
    table_at,
    tables,
    trim,
    without_linked,
    without_links,
)
from text.words import stems

LONGEST = 2000
"""Characters of what follows; of more, whole lines up to here."""

LONGEST_SENTENCE = 600
"""Characters of one sentence; a longer one is not quoted."""
_LEADS_ON = regex.compile(r"[:：?？][*_\s]*$")
LEADS_IN = regex.compile(r"[:：][*_\s]*$")
TOPIC = 200
"""Characters of a sentence that leads to a list, up to which it is shown above a quoted item."""
ITEM = regex.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s")

FRAME = regex.compile(r"\s*(?:/{3,}|:{3,}|!!!|\?\?\?|===|<)[^\n]*")
"""What only opens or closes a box, a tab or an element."""


@lru_cache(256)
def _blocks(text: str) -> tuple[Block, ...]:
    return tuple(blocks(text))


def _in_list(block: Block) -> bool:
    """Whether a block is an item of a list, or indented below one."""
    return bool(ITEM.match(block.words)) or block.words[:2].isspace()


def _code(text: str) -> Iterator[Block]:
    return (block for block in _blocks(text) if block.kind == "code")


def _below(text: str, end: int) -> tuple[Block | None, list[Block]]:
    """The block that the sentence `text[..:end]` ends, and those below it but for frames; none where that goes on."""
    own = next((block for block in _blocks(text) if block.start < end <= block.end), None)
    if own is not None and text[end : own.end].strip(" *_"):
        return own, []
    return own, list(
        dropwhile(lambda block: FRAME.fullmatch(block.words), (block for block in _blocks(text) if block.start >= end))
    )


def sequel_end(text: str, end: int) -> int:
    """The end of what the sentence `text[..:end]` leads to; `end` where that is no code, list or table."""
    _, following = _below(text, end)
    if not following or (following[0].kind == "prose" and not ITEM.match(following[0].words)):
        return end
    first = last = following[0]
    for block in following[1:]:
        next_row = first.kind == block.kind == "row" and text.count("\n", last.end, block.start) == 1
        if not (_in_list(block) if first.kind == "prose" else next_row):
            break
        last = block
    if last.end - end <= LONGEST:
        return last.end
    whole = [block.end for block in following if block.end - end <= LONGEST]
    return whole[-1] if whole else max(text.rfind("\n", first.start, end + LONGEST), end)


def code_below(text: str, end: int, longest: int = LONGEST) -> int:
    """The end of the code right below the paragraph that `text[..:end]` ends; `end` where that is none, or longer.

    Frames between them (the opening of a tab) are passed over.
    """
    own, following = _below(text, end)
    if own is None or own.kind != "prose" or not following or following[0].kind != "code":
        return end
    return following[0].end if following[0].end - following[0].start <= longest else end


def block_around(text: str, start: int, end: int, *, items: bool) -> tuple[int, int]:
    """The paragraph or item that `text[start:end]` lies in (with `items` only an item); the same in none."""
    for block in _blocks(text):
        if block.start <= start and end <= block.end and (not items or ITEM.match(block.words)):
            return trim(text, block.start, block.end)
    return start, end


def unit(matches: Sequence[Support], i: int, passage: Evidence) -> Support:
    """Return what is quoted at least for the sentence `matches[i]` of a passage: its item, and what it leads to.

    A question, or what leads to no block, brings the sentence after it. An item says what an option is for.
    """
    match, origin = matches[i], passage.origin
    end = match.end
    if _LEADS_ON.search(match.quote):
        end = following_block(match, passage).end
        sequel = matches[i + 1] if end == match.end and i + 1 < len(matches) else None
        if sequel and not _RULE.search(sequel.quote) and sequel.end - match.start <= LONGEST_SENTENCE:
            end = sequel.end
    span = block_around(passage.opened, match.start - origin, end - origin, items=True)
    if span[1] - span[0] > LONGEST_SENTENCE:
        span = match.start - origin, end - origin
    return _placed(match, passage, *span)


def following_block(sentence: Support, passage: Evidence) -> Support:
    """The code, list or table that a sentence of the passage leads to by a colon; empty where there is none."""
    end = sentence.end - passage.origin
    stop = sequel_end(passage.opened, end) if LEADS_IN.search(sentence.quote) else end
    return _placed(sentence, passage, end, stop)


def is_code(text: str, at: int) -> bool:
    """Return whether the character at `at` is in a block of code."""
    return any(block.start <= at < block.end for block in _code(text))


def holds_code(text: str, start: int, end: int) -> bool:
    """Return whether a block of code begins in `text[start:end]`."""
    return any(start <= block.start < end for block in _code(text))


def fence_above(text: str, at: int) -> str:
    """The line that opens the code block within which `at` stands; empty for its first line, and outside of code."""
    lines = (block.words.partition("\n")[0].strip() for block in _code(text) if block.start < at < block.end)
    return next(lines, "")


def lead_above(text: str, start: int) -> int:
    """The start of the sentence above the block at `start` that leads to it by a colon; `start` where none does."""
    above = [block for block in _blocks(text) if block.end <= start and block.kind == "prose"]
    if not above or text[above[-1].end : start].strip() or not LEADS_IN.search(above[-1].words):
        return start
    return above[-1].start + sentence_spans(above[-1].words)[-1][0]


def list_topic(support: Support, passage: Evidence) -> str:
    """Return what the list is about whose item a quote begins with: the words that lead to it, or else, for a list that
    its section begins with, the heading in bold. Empty for any other quote.
    """
    text, start = passage.opened, support.start - passage.origin
    upwards = [block for block in reversed(_blocks(text)) if block.start <= start]
    if not upwards or not ITEM.match(upwards[0].words) or is_code(text, start):
        return ""
    above = next((block for block in upwards if not _in_list(block)), None)
    if above is None:
        heading = unformatted(passage.heading[-1] if passage.heading else passage.title)
        return f"**{heading}**" if heading else ""
    if above.kind != "prose" or not LEADS_IN.search(above.words):
        return ""
    first, last = sentence_spans(above.words)[-1]
    return without_links(sanitize_text(above.words[first:last])) if last - first <= TOPIC else ""


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


CUT = "…"
"""Stands where a quote of more lines was cut."""

_FENCE = regex.compile(r"[ \t]*(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)")
_TITLED = regex.compile(
    r"\s*(?:!!!|\?\?\?\+?|===!?\+?|/{3,}|:{3,})\s*[\w-]*[ \t|]*"
    r"(?:[\"\[](?P<title>[^\"\]\n]{1,120})[\"\]]|(?P<rest>[^\n|]*))\s*"
)
_BREAK = regex.compile(r"<br\s*/?>", regex.IGNORECASE)
_MARKED = regex.compile(r"\*\*|__|\n\s*\n|^\s*[#>|]")
"""Bold text, more than a paragraph, or marks that count only where a line begins."""
_TAG = regex.compile(r"\s*</?[A-Za-z][\w.-]*(?:\s[^<>\n]{0,300})?/?>\s*")


def quote_text(support: Support, passage: Evidence) -> str:
    """Return a quote as Markdown to show; the quote itself is a stretch of the passage."""
    whole, start, end = passage.opened, support.start - passage.origin, support.end - passage.origin
    quote = _with_key(support, whole, passage.origin)
    # Below an item of a list code is indented; alone that would make it code that shows its fences.
    first, line, more = sanitize_text(quote).partition("\n")
    text = dedent(quote) if first[:1].isspace() else f"{first}{line}{dedent(more)}"
    if table_at(whole, start):
        # A row alone would be no table, and nobody could tell what its cells are.
        rows = "\n".join(line.strip() for line in text.split("\n"))
        return without_links(_BREAK.sub(" ", sanitize_text(head_above(whole, start) + rows)))
    if fence := fence_above(whole, start):
        text = f"{fence}\n{CUT}\n{text}"
    shown = without_links(_readable(_unquoted(sanitize_text(text))))
    # Steps that begin in the quote go on behind it.
    cut = any(start <= first and first < end < last for first, last in step_lists(whole))
    return shown + (f"\n\n{CUT}" if cut else "")


def _with_key(support: Support, text: str, origin: int) -> str:
    """Return a quote with its key sentence in bold, where that is one of several sentences of plain prose."""
    if support.key is None:
        return support.quote
    start, end = (place - origin for place in support.key)
    first, last = support.start - origin, support.end - origin
    prose = [block for block in _blocks(text) if block.kind == "prose" and block.start < last and first < block.end]
    own = next((block for block in prose if block.start <= start and end <= block.end), None)
    # Next to a letter, or around other marks, asterisks would be shown as they are.
    apart = not (text[max(start - 1, 0) : start].strip() or text[end : end + 1].strip())
    if own is None or ITEM.match(own.words) or not apart or _MARKED.search(text[start:end]):
        return support.quote
    others = (text[max(block.start, first) : min(block.end, last)].replace(text[start:end], "", 1) for block in prose)
    if start < first or end > last or not any(other.strip() for other in others):
        return support.quote
    return f"{text[first:start]}**{text[start:end]}**{text[end:last]}"


def _readable(text: str) -> str:
    """`text` with its last fence closed, and outside of code without frames, tags on lines of their own, and breaks."""
    lines, fence = list[str](), ""
    for line in text.split("\n"):
        opened = _FENCE.match(line)
        if fence:
            fence = "" if opened and opened["fence"].startswith(fence) and not opened["info"].strip() else fence
        elif opened:
            fence = opened["fence"]
        elif FRAME.fullmatch(line) and (titled := _TITLED.fullmatch(line)):
            title = (titled["title"] or titled["rest"] or "").strip()
            if not title:
                continue
            line = f"**{title}**"
        elif _TAG.fullmatch(line):
            continue
        else:
            line = line[:-1] if line.endswith("\\") else line
            if "<" in line and _BREAK.search(line):
                # In a cut row a break must not end the line.
                parts = [part.strip() for part in _BREAK.split(line) if part.strip()]
                line = (" " if line.lstrip().startswith("|") else "  \n").join(parts)
                if not line:
                    continue
        lines.append(line)
    if fence:
        lines += [CUT, fence]
    return "\n".join(lines).strip("\n")


def _unquoted(text: str) -> str:
    """`text` without the marks of a block quotation around it: it becomes one anyway."""
    lines = text.split("\n")
    if not lines[0].startswith(">") or _FENCE.match(text):
        return text
    return "\n".join(regex.sub(r"^\s{0,3}>[ ]?", "", line) for line in lines)


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
_EXAMPLE = regex.compile(
    r"\b(?:examples?|samples?|snippets?|beispiele?|ejemplos?|exemples?)\b|示例|例子|例を|مثال", regex.IGNORECASE
)
_RULE = regex.compile(r"^[ \t]*[|+]?[ \t:]*[-=~^]{2,}[-=~^|+: \t]*$", regex.MULTILINE)
"""A line that separates a table's header from its body, or underlines a heading."""
_ENDS = regex.compile(r"[.!?:;。！？：；…](?:[*_`\"'”’)\]\s]|<br\s*/?>)*$")
_BOLD = regex.compile(r"\s*(?:[-*+]\s+)?(?:\*\*|__)[^*_\n]{1,80}(?:\*\*|__)\s*[:：]?\s*")
_POINTING = """
    a about above also an and are article as at back be below blog can chapter check com coming construction contents
    detail details docs documentation edit find fixme following for from full further guide guides here how http https
    in info information is learn link links list more next of on or our out overview page pages please post progress
    read reading refer reference references related resource resources s section sections see soon step steps table tbd
    that the this to toc todo top under visit we well what wip with work www you your
    auch siehe links weiterführende aussi voir también véase 另请参阅 أيضا انظر
"""
_POINTS = frozenset(_POINTING.split())
"""Words of sentences that only point elsewhere."""
_OPENS_TODO = regex.compile(r"[\W_]*(?:todo|tbd|fixme)\b", regex.IGNORECASE)
_ADDRESS = regex.compile(r"\W*(?:https?|ftp|git|ssh)://\S*")
_WORD = regex.compile(r"[\p{L}\p{N}]+")


def asks_to_do(question: str) -> bool:
    """Return whether a question asks for a way to do something: steps, a command, an example."""
    return bool(_DOES.search(question))


def asks_for_example(question: str) -> bool:
    """Return whether a question asks for an example."""
    return bool(_EXAMPLE.search(question))


_AMOUNT = regex.compile(
    r"\bhow\s+(?:many|much|long|often|old|big|large|far|fast|quick(?:ly)?)\b|\bwhen\s+(?:will|is|was|does|did)\b"
    r"|\b(?:limit(?:s|ed)?|max|maximum|at most|cap|dates?|prices?|costs?)\b",
    regex.IGNORECASE,
)
_WHETHER = regex.compile(
    r"(?:\W*(?:and|but|so|ok|also|then)\W+)*(?:is|are|was|were|can|could|do|does|did|will|would|should|has|have|had)\b",
    regex.IGNORECASE,
)


def asks_for_amount(question: str) -> bool:
    """Return whether an English question asks how much, how long, or when."""
    return bool(_AMOUNT.search(question))


def asks_whether(question: str) -> bool:
    """Return whether an English question begins as one for yes or no."""
    return bool(_WHETHER.match(question))


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
    besides = without_linked(text)
    points = "`" not in besides and _POINTS.issuperset(_WORD.findall(besides.casefold()))
    return points or not _WORD.search(besides) or bool(_OPENS_TODO.match(text) or _ADDRESS.fullmatch(text))


def finished(
    wordings: Sequence[str], quotes: Sequence[Support], evidence: Sequence[Evidence], *, doubted: bool
) -> list[Support]:
    """Return the quotes in their final shape, in order; what an earlier one holds already is left out.

    `doubted` quotes are given with the whole of their paragraph, and without a key sentence.
    """
    places = {passage.n: passage for passage in evidence}
    shaped = list[Support]()
    for quote in quotes:
        whole = shape(wordings, replace(quote, key=None) if doubted else quote, places[quote.n], doubted=doubted)
        if not any(whole.overlaps(other) for other in shaped):
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
    """The rows to quote where a quote is a row, or leads to a table; None for anything else.

    A small table is quoted whole where nothing names a row of it, or only a plain word that the question leans on.
    """
    if place := table_at(text, start):
        table, row = place
        rows, allowed = named(wordings, table).rows, named(wordings, table).allowed
        leaned_on = len(allowed) == len(table.rows) and not named(wordings[:1], table).rows
        small = len(table.rows) <= SMALL_ROWS and table.end - table.start <= SMALL_TABLE
        if small and (leaned_on or not rows):
            return table.start, table.end
        return _run(table, rows, row) if row in rows else (row.start, row.end)
    led = next((table for table in tables(text) if start < table.start < end <= table.end), None)
    if led and len(sentence_spans(text[start : led.start])) > 1:
        # Sentences that answer themselves.
        led = None
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


_ARTICLES = r"(?:an?|the|ein(?:e|en|em|er)?|der|die|das|une?|les?|la|l['’]|el|los|las|una?)"
_ASKED = (
    regex.compile(
        r"(?:^|[,.;!?:]\s*|\b(?:and|but|so|ok|okay|then|und|et|y)\s+)"
        r"(?:what(?:\s+exactly)?(?:['’]?s|\s+is|\s+are|\s+was|\s+were)|whats|define|explain|meaning\s+of"
        r"|what\s+do\s+you\s+mean\s+(?:by|with)|was\s+(?:ist|sind)|qu['’]est-ce\s+qu(?:e|['’])|qu[eé]\s+(?:es|son))\s+"
        rf"(?:(?:exactly|actually|even|again|this|meant\s+by|eigentlich)\s+)*(?:{_ARTICLES}\s+)?"
        r"(?P<term>[^?!,;:\n]{2,60}?)"
        r"(?:\s+(?:exactly|actually|anyway|again|then|good\s+for|for|all\s+about|about|eigentlich))*\s*(?:[?!,;:]|\.(?!\w)|$)",
        regex.IGNORECASE,
    ),
    regex.compile(
        rf"\bwhat\s+do(?:es)?\s+(?:{_ARTICLES}\s+)?(?P<term>[^?!,;:\n]{{2,60}}?)\s+(?:mean|stand\s+for|do)\b",
        regex.IGNORECASE,
    ),
    regex.compile(r"(?:什么是|何谓)\s*(?P<term>[^?？。，]{1,30})|(?P<term>[^?？。，\s]{1,30}?)(?:是什么|指什么)"),
    regex.compile(r"ما\s+(?:هو|هي|هم|معنى)\s+(?P<term>[^?؟،]{2,60})"),
)
_SAYS = regex.compile(
    r"^(?:[^\p{L}\p{N}-]|-(?!-))*(?:(?:in|within|for|with)\s[^,\n]{1,40},\s*)?"
    rf"(?:{_ARTICLES}\s+|[^\p{{L}}\p{{N}}-])*(?P<head>[^,\n]{{1,80}}?)(?:\s*\([^()\n]{{1,60}}\))?(?:,[^,\n]{{1,80}},)?"
    r"(?:[*_`\"”]*\s+(?:is|are|refers?\s+to|means?|describes?|stands?\s+for|denotes?|represents?|consists?\s+of|ist|sind"
    r"|bezeichne[nt]+|bedeutet|est|sont|désigne|signifie|es|son|significa|هو|هي)\s+(?!(?:not|only|now|also|still|no|easy|nicht"
    r"|pas)\b|(?!used|based)\w+(?:ed|able)\b)|[*_`\"”]*\s*[:：][*_`]*\s|[*_`\"”]*\s+[–—-]\s|\s*(?:是|指))",
    regex.IGNORECASE,
)
_HANGS = regex.compile(
    r"(?:what|who|there|when|if|while|as|because|once|after|before|in|on|at|by|for|from|with|to|how|why|where|which|whether|since|wenn|falls"
    r"|si|quand|cuando)\b",
    regex.IGNORECASE,
)
_ROW = regex.compile(r"\s*\|(?P<term>[^|\n]+)\|(?P<meaning>[^|\n]+)\|\s*$")
"""A row of two cells, as glossaries have them."""
_MARGIN = 6.0
"""By how much a cross-encoder may like a definition less than the best sentence (logits)."""
_MEANING_WORDS = 3
"""Words of a table's second cell that says what the first one means."""
_SHARE = 0.5
"""Which share of the best sentence's score it must have where only words are compared."""


def asked_term(question: str) -> str:
    """Return what a question asks the meaning of; empty where it asks for something else."""
    for pattern in _ASKED:
        if match := pattern.search(question):
            return str(match["term"]).strip(" `*_\"'.”“")
    return ""


def definition(
    asked: Sequence[str], scored: Sequence[tuple[float, Support]], evidence: Sequence[Evidence], *, read: bool
) -> Support | None:
    """Return the best of the `scored` sentences that says what a question asks the meaning of; None where none does.

    `asked` is the question as typed, and then with what it leans on. Such a sentence is one whose subject is the term,
    or the first of a section that is named so.
    """
    term = next((term for question in asked if (term := set(stems(asked_term(question))))), set[str]())
    if not term or not scored:
        return None
    best = scored[0][0]
    least = best - _MARGIN if read else _SHARE * best
    places = {passage.n: passage for passage in evidence}
    begins = {n: min(quote.start for _, quote in scored if quote.n == n) for n in {quote.n for _, quote in scored}}
    near = [quote for score, quote in scored if score >= least]
    said = next((quote for quote in near if _defines(term, quote.quote)), None)
    return said or next((q for q in near if q.start == begins[q.n] and _names(term, places[q.n])), None)


def _defines(term: set[str], sentence: str) -> bool:
    plain = without_links(sentence)
    if row := _ROW.match(plain):
        return set(stems(row["term"])) == term and len(row["meaning"].split()) >= _MEANING_WORDS
    match = _SAYS.match(plain)
    if match is None or _HANGS.match(match["head"]):
        return False
    head = stems(match["head"])
    # "A Helm chart is …" says what a chart is, "a chart repository is …" does not.
    return term <= set(head) and len(set(head)) <= len(term) + 1 and head[-1] in term


def _names(term: set[str], passage: Evidence) -> bool:
    """Whether the innermost heading, or the title above no heading, is the term."""
    return set(stems(passage.heading[-1] if passage.heading else passage.title)) == term
