"""Make a quote readable without its page: add in brackets what a reader lacks, and remove what points elsewhere.

Rules expand acronyms and name the speaker by the title. A language model's questions and answers added nothing to that
(`papers/decontextualization`). English only, but for acronyms; long forms are found as by Schwartz and Hearst (2003).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import regex

from plugins.evidence.rewrite_checks import (
    FLOAT_REFERENCE,
    LONGEST,
    MARKER,
    EvidenceTexts,
    addition_refused,
    spans_refused,
)
from plugins.evidence.source import (
    Edit,
    QuoteSpan,
    SourceQuote,
    apply,
    bracketed,
    place_behind,
    untouchable,
)
from text.words import words

ADDITIONS = 5
"""Additions to one quote at most."""
SNIPPET_CHARS = 4000

_ACRONYM = regex.compile(
    r"(?<![\p{L}\p{N}\-_/.])(?=\S*\p{Lu}\S*\p{Lu})\p{L}[\p{L}\p{N}&]{1,9}(?:-\p{Lu}+)?(?![\p{L}\p{N}])"
)
_IN_BRACKETS = regex.compile(r"([^()\n]{3,160})\(\s*([^()]{2,12}?)s?\s*(?:[,;][^()]*)?\)")
_LONG_IN_BRACKETS = regex.compile(r"(?<![\p{L}\p{N}])([\p{L}\p{N}&\-]{2,10}?)s?\s*\(\s*([^()\d]{5,120}?)\s*\)")
_FIRST_PERSON = regex.compile(r"(?<![\p{L}\p{N}'’])(?:we|our|us)(?![\p{L}\p{N}'’])", regex.IGNORECASE)
_THIS_PAPER = regex.compile(
    r"\b(?:this|the present|our) (?:paper|work|article|study|thesis|survey|guide|page|document|manual|chapter)\b",
    regex.IGNORECASE,
)
_ALONE = frozenset(("however", "thus", "therefore", "moreover", "furthermore", "hence", "but", "and"))


@dataclass(frozen=True, slots=True)
class QuoteFinding:
    """A question and its answer from the document, with its place in the quote, the text to add there, and the words of
    the document that say so."""

    question: str
    answer: str
    passage: str
    at: int
    addition: str
    evidence: str


@dataclass(frozen=True, slots=True)
class QuoteAnswer:
    """A question about a quote, its answer, and the passage it is from (empty: lead, title or paragraph).

    `evidence` are the words of the document that it was answered from.
    """

    question: str
    answer: str
    passage: str = ""
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StandaloneQuote:
    """A quote made readable. `text` is how it is shown; `refused` says what the guard turned down, and why."""

    text: str
    spans: tuple[QuoteSpan, ...]
    questions: tuple[QuoteAnswer, ...]
    refused: str = ""


@lru_cache(maxsize=4096)
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


def rule_findings(quote: SourceQuote) -> list[QuoteFinding]:
    """Return the additions that rules find, in the order of the quote; at most one per place."""
    return first_by_place((*_acronyms(quote), *_first_person(quote)))


def first_by_place(findings: Iterable[QuoteFinding]) -> list[QuoteFinding]:
    """Return the first finding of each place, in the order of the quote."""
    by_place: dict[int, QuoteFinding] = {}
    for finding in findings:
        by_place.setdefault(finding.at, finding)
    return sorted(by_place.values(), key=lambda finding: finding.at)


def texts_of(quote: SourceQuote) -> Iterator[tuple[str, str]]:
    """Return the texts read of the document, with their passage ids: lead and paragraph first."""
    yield "", quote.lead
    yield "", quote.paragraph
    for passage in quote.passages:
        yield passage.id, passage.text


def _acronyms(quote: SourceQuote) -> Iterator[QuoteFinding]:
    here = long_forms(quote.snippet)
    forms: dict[str, tuple[str, str, str]] = {}
    for passage, text in texts_of(quote):
        for short, long in long_forms(text).items():
            forms.setdefault(short, (long, passage, text))
    folded = quote.snippet.casefold()
    done = set[str]()
    for match in _ACRONYM.finditer(quote.snippet):
        short = match.group() if match.group() in forms else match.group().removesuffix("s")
        if short in here or short in done or short not in forms:
            continue
        done.add(short)
        long, passage, text = forms[short]
        at = place_behind(quote.snippet, match.end())
        if at is not None and long.casefold() not in folded:
            yield QuoteFinding(f"What does {short} stand for?", long, passage, at, long, text)


def _first_person(quote: SourceQuote) -> Iterator[QuoteFinding]:
    title = " ".join(quote.title.split())
    if not words(title) or title.casefold() in quote.snippet.casefold():
        return
    open_places = untouchable(quote.snippet)
    for pattern, question, addition in (
        (_THIS_PAPER, "Which text is this?", f"“{title}”"),
        (_FIRST_PERSON, "Who is speaking?", f"the authors of “{title}”"),
    ):
        for match in pattern.finditer(quote.snippet):
            at = place_behind(quote.snippet, match.end())
            if at is None or any(start < match.end() <= end for start, end in open_places):
                continue
            shortened = addition if len(addition.split()) <= LONGEST else " ".join(addition.split()[:LONGEST])
            yield QuoteFinding(question, title, "", at, shortened, f"the authors of “{title}”")
            return


def removals(snippet: str) -> list[Edit]:
    """Return spans to remove once a sentence leaves its page: a leading discourse marker, figure and table
    references."""
    edits = list[Edit]()
    begun = MARKER.match(snippet)
    if begun and begun.end() < len(snippet) and ("," in begun.group() or begun.group().casefold().strip() in _ALONE):
        edits.append(Edit(begun.start(), begun.end()))
    edits += [
        Edit(*match.span())
        for match in FLOAT_REFERENCE.finditer(snippet)
        if match.start() >= (begun.end() if edits and begun else 0)
    ]
    return edits


def insertions(snippet: str, findings: Sequence[QuoteFinding]) -> list[Edit]:
    """The edits that put each finding behind its place, and take out what may go."""
    gone = removals(snippet)
    edits = [Edit(finding.at, finding.at, finding.addition) for finding in findings]
    free = [edit for edit in edits if not any(cut.start < edit.start < cut.end for cut in gone)]
    return [*gone, *free]


def make_standalone(quote: SourceQuote) -> StandaloneQuote:
    """Return the quote with what its readers lack, as far as rules find it. Blocks."""
    if len(quote.snippet) > SNIPPET_CHARS:
        return unchanged(quote, f"The quote has more than {SNIPPET_CHARS:,} characters; quote less of the document.")
    settled = rule_findings(quote)
    findings, reasons = allowed(quote, settled)
    return with_additions(quote, findings, as_answers(settled), reasons)


def unchanged(quote: SourceQuote, refused: str = "") -> StandaloneQuote:
    return StandaloneQuote(quote.snippet, (QuoteSpan("kept", quote.snippet),), (), refused)


def as_answers(findings: Sequence[QuoteFinding]) -> tuple[QuoteAnswer, ...]:
    return tuple(
        QuoteAnswer(finding.question, finding.answer, finding.passage, (finding.evidence,)) for finding in findings
    )


def allowed(quote: SourceQuote, findings: Sequence[QuoteFinding]) -> tuple[list[QuoteFinding], list[str]]:
    """Return the findings that the checks let into a quote, and the reasons why others are refused."""
    judged = [
        (finding, addition_refused(finding.addition, quote.snippet, EvidenceTexts([finding.evidence])))
        for finding in findings
    ]
    return [finding for finding, reason in judged if not reason], [reason for _, reason in judged if reason]


def with_additions(
    quote: SourceQuote, findings: Sequence[QuoteFinding], answers: Sequence[QuoteAnswer], refused: Sequence[str]
) -> StandaloneQuote:
    """Put the first findings behind their places, and take out what points elsewhere, as far as the checks let it."""
    chosen, reasons = findings[:ADDITIONS], list(refused)
    spans = apply(quote.snippet, insertions(quote.snippet, chosen))
    if reason := spans_refused(quote.snippet, spans):
        # What the rules took out did not stand as they thought.
        reasons.append(reason)
        spans = apply(quote.snippet, [Edit(finding.at, finding.at, finding.addition) for finding in chosen])
        if reason := spans_refused(quote.snippet, spans):
            return unchanged(quote, reason)
    return StandaloneQuote(bracketed(spans), tuple(spans), tuple(answers), " ".join(dict.fromkeys(reasons)))
