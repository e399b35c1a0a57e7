"""Checks of what is added to a quote: each is done by code, and each refusal gives its reason in one sentence.

The words of the quote stay; only discourse markers and references to figures and tables may go. Text in brackets must
be supported by the document: words, numbers and negations. Comparing words can neither reason nor translate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import regex

from papers.spans import QuoteSpan, kept, original
from plugins.evidence.decontextualize import LONGEST
from plugins.evidence.source import numbered_texts
from server.turn.support import SUPPORTED, SupportScorer
from text.sanitize import is_showable
from text.sentences import sentence_spans
from text.words import negations, numbers, stems, words

MARKER = regex.compile(
    r"(?:however|moreover|furthermore|in addition|additionally|thus|therefore|hence|consequently|as a result"
    r"|accordingly|for (?:example|instance)|in contrast|by contrast|on the (?:other|one) hand|besides|similarly"
    r"|likewise|nevertheless|nonetheless|meanwhile|in particular|specifically|in fact|indeed|finally|lastly"
    r"|to (?:this|that) end|as (?:mentioned|described|noted|shown|stated|discussed|said)"
    r" (?:above|before|earlier|below|previously)|also|then|so|but|and|again|instead)\b\s*,?\s*",
    regex.IGNORECASE,
)
_NAMED = r"(?:Figures?|Figs?\.|Tables?|Tabs?\.|FIG\w*|TAB\w*)"
_FLOAT = rf"{_NAMED}\s*~?(?:\[?(?:FIG|TAB)REF\d+\]?|[A-Z]?\d[\w.\-]*|[IVX]+\b)"
_FLOATS = rf"{_FLOAT}(?:(?:,| and| or|–|-|,? ?&)\s*(?:{_FLOAT}|\d\w*))*"
FLOAT_REFERENCE = regex.compile(
    rf"\s*\((?:see |cf\. |as (?:shown|seen) in |e\.g\.,? )?(?:also )?{_FLOATS}\)"
    rf"|\s*,?\s*(?:as (?:shown|seen|illustrated|listed|given|depicted|reported) in|see) {_FLOAT},?",
)
CITATION = regex.compile(
    r"\[\d[\d,\s–-]*\]|\bet al\b|\((?:[^()]*\b)?(?:19|20)\d\d[a-z]?\)|\b\p{Lu}\p{L}+,? \(?(?:19|20)\d\d[a-z]?\b"
)
PLACEHOLDER = regex.compile(
    r"\b(?:BIB|FIG|TAB|SEC|EQ)?REF\d*\b|\bINLINEFORM\d*|\bno answer\b|\bcannot[_ ]answer", regex.I
)
ADDRESS = regex.compile(
    r"https?:|ftp:|\bwww\.|\b[\w-]+\.(?:com|org|net|io|dev)\b|\S@\S+\.\w|javascript:|data:\w+/", regex.I
)
MARKUP = regex.compile(r"<\s*/?\s*[A-Za-z!]|\]\(|```|\bon\w+\s*=|&#|\|\s*-{2,}|‹|\{\{|^\s*#{1,6}\s", regex.MULTILINE)
ORDERS = regex.compile(
    r"\b(?:ignore|disregard|forget)\b.{0,30}\b(?:instructions?|above|previous|prompt|rules)\b"
    r"|\b(?:system prompt|you are (?:an?|now)|as an ai)\b",
    regex.IGNORECASE,
)
FORBIDDEN = (
    (ADDRESS, "an address"),
    (MARKUP, "markup or a script"),
    (ORDERS, "an instruction"),
    (PLACEHOLDER, "a placeholder"),
    (CITATION, "a citation"),
)


class EvidenceTexts:
    """The texts that an addition must be supported by; cutting them takes milliseconds."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = [text for text in dict.fromkeys(texts) if text.strip()]
        self._scorer = SupportScorer(numbered_texts(self.texts))
        self._numbers = set[str]().union(*map(numbers, self.texts))

    def score(self, text: str) -> float:
        """How well the texts support it, from 0 to 1; a number or a negation that they lack costs most of it."""
        return self._scorer.score(text, range(1, len(self.texts) + 1))

    def turns(self, text: str) -> bool:
        """Whether what comes nearest to it denies what it says, or says what it denies."""
        return self._scorer.flips(text, range(1, len(self.texts) + 1))

    def lacks(self, text: str) -> str:
        """Return, as a sentence, the part of `text` that the texts lack; empty if they hold everything."""
        if strange := numbers(text) - self._numbers:
            return f"An addition brings a number that its evidence lacks ({', '.join(sorted(strange))})."
        if not stems(text) or self.score(text) >= SUPPORTED:
            return ""
        if negations(text) and not any(negations(text) for text in self.texts):
            return "An addition brings a negation that its evidence lacks."
        return "An addition is not supported by its evidence."


def addition_refused(added: str, quote: str, evidence: EvidenceTexts) -> str:
    """Return the reason to refuse `added` in brackets in `quote`; empty if it is allowed."""
    count = len(added.split())
    if not words(added):
        return "An addition is empty."
    if count > LONGEST:
        return f"An addition has {count} words; {LONGEST} are allowed."
    if not is_showable(added):
        return "An addition contains characters that are unsafe to show."
    for pattern, what in FORBIDDEN:
        match = pattern.search(added)
        if match and not (pattern is CITATION and match.group() in quote):
            return f"An addition contains {what} (“{match.group().strip()}”)."
    return evidence.lacks(added)


def spans_refused(quote: str, spans: Sequence[QuoteSpan]) -> str:
    """Return the reason to refuse these spans in place of `quote`; empty if they are allowed."""
    if original(spans) != quote:
        return "The words of the quote were changed outside brackets."
    if not kept(spans).strip():
        return "Nothing is left of the quote."
    if len(sentence_spans(kept(spans))) != len(sentence_spans(quote)):
        return "The number of sentences outside the brackets changed."
    return ""
