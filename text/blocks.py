"""Blocks of a text as lines (prose, code and table rows), found by a Markdown parser; links and images by their words.

The one place that configures markdown-it for this project. Offsets count characters of the text
given, whose line ends must be ``\n``. Headings and sections are the loader's, sentences are
`text.sentences`'. Nothing here renders: inline markup is never parsed, so hostile text stays cheap.

The grammar of links is that of CommonMark (0.31, sections 6.3 to 6.5), bounded: brackets and parentheses may nest once,
and what is longer than a bound stays as it is. Links in code stay. Attribute lists behind a link (`{ .md-button }`) are
Python-Markdown's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
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
    """Whole lines of one kind: `text[start:end]`, without the last line end."""

    kind: BlockKind
    start: int
    end: int


def line_starts(text: str) -> list[int]:
    """Where each line of `text` begins, and past the last one the place where the next would."""
    starts = [0]
    at = text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    starts.append(len(text) + 1)
    return starts


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
    line = 0
    for kind, first, last in _claims(block_parser(mdx=True).parse(text)):
        first = max(first, line)
        last = min(last, len(starts) - 1)
        if first >= last:
            continue
        yield from _runs(text, starts, line, first)
        yield Block(kind, starts[first], starts[last] - 1)
        line = last
    yield from _runs(text, starts, line, len(starts) - 1)


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


def _runs(text: str, starts: list[int], first: int, last: int) -> Iterator[Block]:
    """Lines no leaf block claimed (fences of admonitions, link definitions), as prose between blank lines."""
    begin: int | None = None
    for number in range(first, last):
        blank = not text[starts[number] : starts[number + 1] - 1].strip()
        if blank and begin is not None:
            yield Block("prose", starts[begin], starts[number] - 1)
            begin = None
        elif not blank and begin is None:
            begin = number
    if begin is not None:
        yield Block("prose", starts[begin], starts[last] - 1)


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
