"""The rules by which quotes were made readable in the measurement: those of the product, and what they take out.

The product (`plugins.evidence.decontextualize`) adds what these find, and takes nothing out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from papers.rewrite_checks import FLOAT_REFERENCE, MARKER, EvidenceTexts, addition_refused, spans_refused
from papers.spans import Edit, QuoteSpan, apply, bracketed
from plugins.evidence.decontextualize import (
    ACRONYM,
    ADDITIONS,
    FIRST_PERSON,
    LONGEST,
    THIS_TEXT,
    long_forms,
    place_behind,
    untouchable,
)
from plugins.evidence.source import SourcePassage
from text.words import words

_ALONE = frozenset(("however", "thus", "therefore", "moreover", "furthermore", "hence", "but", "and"))


@dataclass(frozen=True, slots=True)
class SourceQuote:
    """A quote, and the document it is read in. Any part but the snippet may be empty."""

    snippet: str
    title: str = ""
    lead: str = ""
    section: str = ""
    paragraph: str = ""
    passages: tuple[SourcePassage, ...] = ()


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
    for match in ACRONYM.finditer(quote.snippet):
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
        (THIS_TEXT, "Which text is this?", f"“{title}”"),
        (FIRST_PERSON, "Who is speaking?", f"the authors of “{title}”"),
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
