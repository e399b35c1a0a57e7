"""Refusals: a proposition must state something, say no number, name or “not” that its source lacks, and lose none.

Only words are compared; that a sentence is otherwise true of its source is the alignment's affair.
"""

from __future__ import annotations

from collections.abc import Iterator

import regex

from synth.propositions.align import Aligned
from synth.propositions.windows import DocumentWindow
from text.words import negations, numbers, words

# A number that belongs to a name ("Form 1040", "HTTP 404") may come from anywhere the name may.
_NUMBERED_NAME = regex.compile(r"\b\p{Lu}[\p{L}\p{N}-]*[ \u00a0-]\p{Nd}[\p{Nd}.,]*")
_NAME = regex.compile(r"\b\p{Lu}[\p{L}\p{N}_]*(?:['’.-][\p{L}\p{N}_]+)*|`[^`\n]+`|\b\p{L}[\p{L}\p{N}]*_[\p{L}\p{N}_]+")
_CLAUSE = regex.compile(r"[,;:()!?]|\.(?=\s|$)|\b(?:but|and|or|unless|although|aber|und|oder|mais|et|ou|pero|y|o)\b")
_CLAUSE_WORDS = 3
_QUESTION = regex.compile(r"[?？؟]\W*$")
# Headings, items of lists and what was cut have no sign at their end that ends a sentence. Thai and its neighbours
# write none.
_ENDED = regex.compile(r"(?:[\p{STerm}…]|[\p{Thai}\p{Lao}\p{Khmer}])[\p{Pe}\p{Pf}\p{Pi}\"'`*_\s]*$")
# "The text describes …" speaks of the page, not of its matter.
_OF_THE_PAGE = regex.compile(
    r"(?:the|this) (?:text|passage|document|section|page|article|table) "
    r"(?:describes?|mentions?|discusses|explains?|provides|contains|states|lists|is about|talks about)\b",
    regex.IGNORECASE,
)
# What goes with a “not” and is gone without it: “does not expire”, “expires”.
_AUXILIARIES = frozenset({"do", "does", "did", "don", "doesn", "didn", "not", "no", "never", "cannot", "nor", "any"})


def refusal(proposition: str, window: DocumentWindow, aligned: Aligned) -> str:
    """Why a proposition is refused, empty where it may stay.

    `no statement` (a heading, a question, a fragment, a word about the page itself), `number`, `name`, `negation` or
    `lost negation`.
    """
    return next(_reasons(proposition, window, aligned), "")


def _reasons(proposition: str, window: DocumentWindow, aligned: Aligned) -> Iterator[str]:
    document = window.document
    source = document.text[aligned.start : aligned.end]
    headings = (document.title, *(part for piece in window.pieces for part in piece.heading))
    above = " ".join(headings)
    everything = f"{above}\n{window.text}"
    if not _states(proposition) or words(proposition) in [words(heading) for heading in headings]:
        yield "no statement"
    named = numbers(" ".join(_NUMBERED_NAME.findall(proposition))) & numbers(everything)
    if numbers(proposition) - named - numbers(f"{source} {above}"):
        yield "number"
    if _names(proposition) - set(words(everything)):
        yield "name"
    if negations(proposition) > 0 and not negations(f"{source} {above}"):
        yield "negation"
    if not negations(proposition) and _denied(proposition, source):
        yield "lost negation"


def _states(text: str) -> bool:
    return bool(_ENDED.search(text)) and not _QUESTION.search(text) and not _OF_THE_PAGE.match(text)


def _names(text: str) -> set[str]:
    """Words of names and code. The first word is capital anyway and counts only if it has a capital or sign within."""
    found: set[str] = set()
    for match in _NAME.finditer(text):
        name = match.group()
        if match.start() == 0 and not any(letter.isupper() or letter in "_`" for letter in name[1:]):
            continue
        found.update(words(name))
    return found


def _denied(proposition: str, source: str) -> bool:
    """Whether the source says all of this with a “not”."""
    said = _plain(proposition)
    for clause in _CLAUSE.split(source):
        if clause and negations(clause):
            denied = _plain(clause)
            if len(denied) >= _CLAUSE_WORDS and denied <= said:
                return True
    return False


def _plain(text: str) -> set[str]:
    """Words without what a “not” brings with it and without a final s."""
    return {word.rstrip("s") for word in words(text) if word not in _AUXILIARIES}
