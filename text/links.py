"""Say Markdown links and images by their words.

A quote keeps the source's characters, for its offsets point into the document; people are shown its words. Code is left
as it is, for a link in it is part of the code.

The grammar is that of CommonMark (0.31, sections 6.3 to 6.5), bounded: brackets and parentheses may nest once, and
what is longer than a bound stays as it stands. Attribute lists behind a link (`{ .md-button }`) are Python-Markdown's.
"""

from __future__ import annotations

import regex

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
