"""Make a quote readable without its page: add in brackets what its acronyms stand for, and who "we" are.

Further rules, and a language model that asks what a reader lacks, added nothing to that
(`papers/decontextualization`). English only, but for acronyms; long forms are found as by Schwartz and Hearst (2003).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal

import regex

from index.documents import Document
from server.store.records import View
from text.sanitize import is_showable
from text.sentences import blocks
from text.words import words

QUOTE_CHARS = 4000
ADDITIONS = 5
"""Additions to one quote at most."""
LONGEST = 40
"""Words of one addition at most."""

ACRONYM = regex.compile(
    r"(?<![\p{L}\p{N}\-_/.])(?=\S*\p{Lu}\S*\p{Lu})\p{L}[\p{L}\p{N}&]{1,9}(?:-\p{Lu}+)?(?![\p{L}\p{N}])"
)
_IN_BRACKETS = regex.compile(r"([^()\n]{3,160})\(\s*([^()]{2,12}?)s?\s*(?:[,;][^()]*)?\)")
_LONG_IN_BRACKETS = regex.compile(r"(?<![\p{L}\p{N}])([\p{L}\p{N}&\-]{2,10}?)s?\s*\(\s*([^()\d]{5,120}?)\s*\)")
FIRST_PERSON = regex.compile(r"(?<![\p{L}\p{N}'’])(?:we|our|us)(?![\p{L}\p{N}'’])", regex.IGNORECASE)
THIS_TEXT = regex.compile(
    r"\b(?:this|the present|our) (?:paper|work|article|study|thesis|survey|guide|page|document|manual|chapter)\b",
    regex.IGNORECASE,
)
_UNFIT = regex.compile(r"[\[\]<>`|]|https?:|www\.|\S@\S|javascript:", regex.IGNORECASE)
"""Not added, though the document says it: markup, and addresses."""

_PROTECTED = regex.compile(
    r"(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)"  # code in a line
    r"|!?\[[^\[\]\n]*\]\([^()\s]*\)"  # a link
    r"|<[^<>\s][^<>\n]*>"  # a tag or an address in angle brackets
    r"|(?:https?|ftp)://[^\s<>\])}]+|www\.[^\s<>\])}]+"
    r"|\$[^$\n]{1,200}\$|\\\(.{1,200}?\\\)"  # mathematics
    r"|\[[^\[\]\n]{0,60}\]"  # [2], arr[0], [Smith 2019]
    r"|\((?:[^()\n]{0,80}\b(?:19|20)\d\d[a-z]?(?:[;,][^()\n]{0,80})?)\)",  # (Smith et al., 2019)
    regex.DOTALL,
)
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}_]+(?:['’\-./:][\p{L}\p{M}\p{N}_]+)*")


class QuoteSpan(View):
    """A stretch of a quote, or an addition to it without its brackets."""

    kind: Literal["kept", "added"]
    text: str


def make_standalone(document: Document, start: int, end: int) -> list[QuoteSpan]:
    """Return `document.text[start:end]` with the additions behind their words. Blocks."""
    quote = document.text[start:end]
    by_place = dict(reversed([*_expansions(quote, long_forms(document.text)), *_speakers(quote, document.title)]))
    fit = [
        (at, text) for at, text in sorted(by_place.items())
        if len(text.split()) <= LONGEST and is_showable(text) and not _UNFIT.search(text)
    ]  # fmt: skip
    spans, last = list[QuoteSpan](), 0
    for at, text in fit[:ADDITIONS]:
        spans += [QuoteSpan(kind="kept", text=quote[last:at]), QuoteSpan(kind="added", text=text)]
        last = at
    return [span for span in (*spans, QuoteSpan(kind="kept", text=quote[last:])) if span.text]


def bracketed(spans: Sequence[QuoteSpan]) -> Iterator[tuple[QuoteSpan, str]]:
    """Yield each span with its text as it is shown: additions in brackets, apart from their neighbours."""
    before = ""
    for span in spans:
        if span.kind == "added":
            yield span, f" [{span.text}]"
        else:
            # `[…](` would be a link, `[…][` a reference.
            apart = before == "added" and (span.text[0].isalnum() or span.text[0] in "_([")
            yield span, f" {span.text}" if apart else span.text
        before = span.kind


def _expansions(quote: str, forms: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Yield the long form of each acronym that the quote does not expand itself, and where it goes."""
    done = set(long_forms(quote))
    for match in ACRONYM.finditer(quote):
        short = match.group() if match.group() in forms else match.group().removesuffix("s")
        if short in done or short not in forms:
            continue
        done.add(short)
        at = place_behind(quote, match.end())
        if at is not None and forms[short].casefold() not in quote.casefold():
            yield at, forms[short]


def _speakers(quote: str, title: str) -> Iterator[tuple[int, str]]:
    """Yield the title behind the first "this page" and the first "we", unless the quote has it."""
    title = " ".join(title.split())
    if not words(title) or title.casefold() in quote.casefold():
        return
    title = " ".join(title.split()[: LONGEST - 3])
    for pattern, addition in ((THIS_TEXT, f"“{title}”"), (FIRST_PERSON, f"the authors of “{title}”")):
        for match in pattern.finditer(quote):
            at = place_behind(quote, match.end())
            within = any(start < match.end() <= end for start, end in untouchable(quote))
            if at is not None and not within and match.group() != "US":
                yield at, addition
                break


@lru_cache(maxsize=16)
def long_forms(text: str) -> dict[str, str]:
    """Return the acronyms that a text expands, with their long forms as written."""
    forms: dict[str, str] = {}
    for match in _IN_BRACKETS.finditer(text):
        short = match[2].strip()
        if _is_short(short) and (long := _matching(short, match[1])):
            forms.setdefault(short, long)
    for match in _LONG_IN_BRACKETS.finditer(text):
        short, inside = match[1], match[2].strip()
        if _is_short(short) and (long := _matching(short, inside)) and len(long) >= 0.8 * len(inside):
            forms.setdefault(short, long)
    return forms


def _is_short(text: str) -> bool:
    return 2 <= len(text) <= 10 and len(text.split()) <= 2 and text[0].isalnum() and any(c.isupper() for c in text)


def _matching(short: str, before: str) -> str:
    """The end of `before` that `short` abbreviates (Schwartz and Hearst's algorithm); empty where it does not."""
    tail = before.rstrip().split()
    before = " ".join(tail[-min(len(short) + 5, 2 * len(short)) :])
    s, at = len(short) - 1, len(before) - 1
    while s >= 0:
        char = short[s].casefold()
        if not char.isalnum():
            s -= 1
            continue
        while at >= 0 and (before[at].casefold() != char or (s == 0 and at > 0 and before[at - 1].isalnum())):
            at -= 1
        if at < 0:
            return ""
        at, s = at - 1, s - 1
    start = before.rfind(" ", 0, at + 2) + 1
    long = before[start:].strip(" ,;:-–\"'“”")
    parts = [part for part in regex.split(r"[\s\-/]+", long) if part]
    if len(long) <= len(short) or short.casefold() in (part.casefold() for part in parts):
        return ""
    # A letter inside a word is a match by chance more often than not: most must begin a word, and few words go unused.
    letters = [char.casefold() for char in short if char.isalpha()]
    begun = _in_order(letters, [part[0].casefold() for part in parts])
    return long if begun >= max(2, len(letters) * 0.6) or (len(parts) == 1 and len(letters) > 2) else ""


def _in_order(letters: Sequence[str], initials: Sequence[str]) -> int:
    """How many of the letters are found among the initials, in their order."""
    at = position = 0
    for letter in letters:
        if letter in initials[at:]:
            at += initials[at:].index(letter) + 1
            position += 1
    return position


def untouchable(text: str) -> list[tuple[int, int]]:
    """Code, links, tags, formulas and citations, in order: nothing is added within them or taken from them."""
    spans = [(block.start, block.end) for block in blocks(text) if block.kind == "code"]
    inline = [match.span() for match in _PROTECTED.finditer(text)]
    spans += [(start, end) for start, end in inline if not any(a < end and start < b for a, b in spans)]
    return sorted(spans)


def place_behind(text: str, at: int) -> int | None:
    """The first place from `at` on where an addition may stand: behind the word and the protected stretch that
    `at` is in. None within a code block, behind which nothing would be in its place."""
    fenced = [(block.start, block.end) for block in blocks(text) if block.kind == "code"]
    if any(start <= at <= end for start, end in fenced):
        return None
    moved = True
    while moved:
        moved = False
        for start, end in untouchable(text):
            if start < at < end:
                at, moved = end, True
        for word in _WORD.finditer(text, max(0, at - 200)):
            if word.start() >= at:
                break
            if at < word.end():
                at, moved = word.end(), True
    return at
