"""Show a quote: below its header, with its fences closed, its links as words, and a mark where it was cut.

The citation keeps the source's characters and offsets; only what people read differs. Nothing of a quote is added to:
the header of a table is its document's, and a fence is closed or opened again where the quote ends within code.
"""

from __future__ import annotations

from textwrap import dedent

import regex

from server.turn.events import Evidence
from server.turn.markdown_blocks import FRAME, fence_above, step_lists
from server.turn.support import Support
from server.turn.tables import head_above, table_at
from text.blocks import without_links
from text.sanitize import sanitize_text

CUT = "…"
"""Stands where a quote of more lines was cut."""

_FENCE = regex.compile(r"[ \t]*(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)")
_TITLED = regex.compile(
    r"\s*(?:!!!|\?\?\?\+?|===!?\+?|/{3,}|:{3,})\s*[\w-]*[ \t|]*"
    r"(?:[\"\[](?P<title>[^\"\]\n]{1,120})[\"\]]|(?P<rest>[^\n|]*))\s*"
)
_BREAK = regex.compile(r"<br\s*/?>", regex.IGNORECASE)
_TAG = regex.compile(r"\s*</?[A-Za-z][\w.-]*(?:\s[^<>\n]{0,300})?/?>\s*")


def quote_text(support: Support, passage: Evidence) -> str:
    """Return a quote as Markdown to show; the quote itself is a stretch of the passage."""
    whole, start, end = passage.opened, support.start - passage.origin, support.end - passage.origin
    # Below an item of a list code is indented; alone that would make it code that shows its fences.
    first, line, more = sanitize_text(support.quote).partition("\n")
    text = dedent(support.quote) if first[:1].isspace() else f"{first}{line}{dedent(more)}"
    if table_at(whole, start):
        # A row alone would be no table, and nobody could tell what its cells are.
        rows = "\n".join(line.strip() for line in text.split("\n"))
        return without_links(_BREAK.sub(" ", sanitize_text(head_above(whole, start) + rows)))
    if fence := fence_above(whole, start):
        text = f"{fence}\n{CUT}\n{text}"
    shown = without_links(_readable(_unquoted(sanitize_text(text))))
    return shown + (f"\n\n{CUT}" if _is_cut(whole, start, end) else "")


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


def _is_cut(text: str, start: int, end: int) -> bool:
    """Whether the quote `text[start:end]` ends within numbered steps that begin in it."""
    return any(start <= first and first < end < last for first, last in step_lists(text))
