"""Making a quote readable away from its page (after Newman et al. 2023): questions, retrieval, answers, brackets.

What code can settle is settled by rules (`rules`): acronyms, first person, terms the document defines. A language model
asks what else a reader must know, answers it from the document, and what it answers is put behind the words that it
explains (`insert`). The free rewrite (`prompted`) is a variant, and falls back to that where the guard refuses it.
Without a model the rules remain. Questions, passages and answers may be handed in, so that each step can be measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import regex

from server.evidence import rules
from server.evidence.answering import (
    QuoteAnswer,
    best_passage,
    document_text,
    extracted_answer,
    prompted_answer,
    shown_texts,
)
from server.evidence.asking import QuoteAsker, prompts_version
from server.evidence.guard import EvidenceTexts, addition_refused, read_rewrite, spans_refused
from server.evidence.rules import QuoteFinding
from server.evidence.source import SourcePassage, SourceQuote
from server.evidence.spans import Edit, QuoteSpan, apply, bracketed
from server.evidence.within import Within
from text.words import stems

StandaloneMethod = Literal["insert", "prompted"]

QUESTIONS = 3
RETRIEVED = 3
ADDITIONS = 5
"""Most questions a model may ask, passages retrieved for each, and additions to one quote."""

SNIPPET_CHARS = 4000
QUESTION_TOKENS = 80
_PASSAGE_ONLY = regex.compile(r"\b(?:who|whom|whose|citation|cited|table|figure|section|equation|formula)\b", regex.I)
_NO_QUESTIONS = regex.compile(r"^\W*no questions?\b", regex.IGNORECASE)
_BULLET = regex.compile(r"^\s*(?:[-*•]|\d+[.)]|Q\d*[:.])\s*")
_PAIR = regex.compile(r"^\s*(?:[-*•]\s*)?[\"“`]?(.{2,80}?)[\"”`]?\s*=>\s*(.{2,300})$")


@dataclass(frozen=True, slots=True)
class StandalonePlan:
    """How it is done: `variant` says what of the document is shown beside what is retrieved (`document_text`); `whole`
    shows all of it; `direct` leaves out questions and retrieval; `rewriter_sees` are the letters of D, Q, A, E."""

    method: StandaloneMethod = "insert"
    variant: str = "TASP"
    whole: bool = False
    direct: bool = False
    rules: bool = True
    rewriter_sees: str = "QA"

    @property
    def version(self) -> str:
        """Changes whenever a prompt does, or the plan."""
        names = ("questions", "answer", "rewrite", "pairs")
        plan = f"{self.method}.{self.variant}.{self.whole:d}{self.direct:d}{self.rules:d}.{self.rewriter_sees}"
        return f"{prompts_version(*names)}.{plan}"


@dataclass(frozen=True, slots=True)
class StandaloneGiven:
    """What takes the place of a step: questions, passages for each question, answers."""

    questions: Sequence[str] | None = None
    passages: Mapping[str, Sequence[SourcePassage]] = field(default_factory=dict)
    answers: Sequence[QuoteAnswer] | None = None


@dataclass(frozen=True, slots=True)
class StandaloneQuote:
    """A quote made readable. `text` is how it is shown; `refused` says what the guard turned down, and why."""

    text: str
    spans: tuple[QuoteSpan, ...]
    questions: tuple[QuoteAnswer, ...]
    refused: str = ""
    retrieved: Mapping[str, tuple[SourcePassage, ...]] = field(default_factory=dict)


async def make_standalone(
    quote: SourceQuote,
    plan: StandalonePlan,
    asker: QuoteAsker | None = None,
    within: Within | None = None,
    given: StandaloneGiven | None = None,
) -> StandaloneQuote:
    """The quote with what its readers lack. `within` holds the texts of `quote.passages`, in their order.

    Without an `asker` no model is asked. Raises AskingFailed. What blocks is done in threads.
    """
    given = given or StandaloneGiven()
    if len(quote.snippet) > SNIPPET_CHARS:
        return unchanged(quote, f"The quote has more than {SNIPPET_CHARS:,} characters; quote less of the document.")
    settled = await asyncio.to_thread(rules.find, quote) if plan.rules else []
    retrieved: dict[str, tuple[SourcePassage, ...]] = {}
    if given.answers is not None:
        answers = list(given.answers)
    elif asker is not None and plan.direct and given.questions is None:
        found = await _pairs(asker, quote, plan)
        return await asyncio.to_thread(_inserted, quote, [*settled, *found], [], {})
    else:
        questions = list(given.questions) if given.questions is not None else []
        if given.questions is None and asker is not None:
            questions = await _questions(asker, quote, settled)
        answers = []
        for question in questions:
            passages = given.passages.get(question)
            if passages is None:
                passages = await asyncio.to_thread(_retrieved, quote, question, plan, within)
            retrieved[question] = tuple(passages)
            if asker is None:
                answer = await asyncio.to_thread(extracted_answer, quote, question, passages, plan.variant)
            else:
                answer = await prompted_answer(asker, quote, question, passages, plan.variant)
            if answer is not None:
                answers.append(answer)
    refused = ""
    if plan.method == "prompted" and asker is not None:
        rewritten, refused = await _prompted(asker, quote, plan, settled, answers)
        if rewritten is not None:
            questions_asked = (*_as_answers(settled), *answers)
            return StandaloneQuote(bracketed(rewritten), tuple(rewritten), questions_asked, "", retrieved)
    made = await asyncio.to_thread(_inserted, quote, settled, answers, retrieved)
    if not refused:
        return made
    return StandaloneQuote(made.text, made.spans, made.questions, refused, retrieved)


def unchanged(quote: SourceQuote, refused: str = "") -> StandaloneQuote:
    """The quote as it is."""
    return StandaloneQuote(quote.snippet, (QuoteSpan("kept", quote.snippet),), (), refused)


def _inserted(
    quote: SourceQuote,
    settled: Sequence[QuoteFinding],
    answers: Sequence[QuoteAnswer],
    retrieved: Mapping[str, tuple[SourcePassage, ...]],
) -> StandaloneQuote:
    """Every finding and answer behind its anchor, as far as the guard lets it."""
    judged = [(one, addition_refused(one.addition, quote.snippet, EvidenceTexts([one.evidence]))) for one in settled]
    findings = [one for one, reason in judged if not reason]
    reasons = dict.fromkeys(reason for _, reason in judged if reason)
    known = set(stems(quote.snippet)).union(*(stems(one.addition) for one in findings))
    kept = list[QuoteAnswer]()
    for answer in answers:
        at = rules.anchor(quote.snippet, answer.question, answer.answer)
        text = rules.addition(quote.snippet, answer.answer, at)
        if at is None or not set(stems(text)) - known:
            continue
        if reason := addition_refused(text, quote.snippet, EvidenceTexts(answer.evidence)):
            reasons[reason] = None
            continue
        known |= set(stems(text))
        findings.append(QuoteFinding(answer.question, answer.answer, answer.passage, at, text, ""))
        kept.append(answer)
    chosen = findings[:ADDITIONS]
    spans = apply(quote.snippet, rules.insertions(quote.snippet, chosen))
    every = EvidenceTexts([*(one.evidence for one in settled), *(text for one in answers for text in one.evidence)])
    if reason := spans_refused(quote.snippet, spans, every):
        # What the rules took out did not stand as they thought.
        reasons[reason] = None
        spans = apply(quote.snippet, [Edit(one.at, one.at, one.addition) for one in chosen])
        if reason := spans_refused(quote.snippet, spans, every):
            return unchanged(quote, reason)
    asked = (*_as_answers(settled), *(kept if answers else ()))
    return StandaloneQuote(bracketed(spans), tuple(spans), asked, " ".join(reasons), retrieved)


def _as_answers(findings: Sequence[QuoteFinding]) -> tuple[QuoteAnswer, ...]:
    return tuple(QuoteAnswer(one.question, one.answer, one.passage, (one.evidence,)) for one in findings)


def _retrieved(quote: SourceQuote, question: str, plan: StandalonePlan, within: Within | None) -> list[SourcePassage]:
    """The passages a question finds, without those whose words the prompt has already."""
    if plan.whole:
        return list(quote.passages)
    if within is None:
        within = Within([one.text for one in quote.passages])
    shown = [text for text in shown_texts(quote, plan.variant) if len(text) > 40]
    found = list[SourcePassage]()
    for place in within.rank(question, len(quote.passages)):
        passage = quote.passages[place]
        if not any(passage.text in text or text in passage.text for text in (*shown, quote.snippet)):
            found.append(passage)
        if len(found) == RETRIEVED:
            break
    return found


async def _questions(asker: QuoteAsker, quote: SourceQuote, settled: Sequence[QuoteFinding]) -> list[str]:
    """What a model asks, without what rules have settled and what is not to be asked."""
    said = await asker.ask("questions", {"snippet": quote.snippet}, QUESTION_TOKENS)
    found = list[str]()
    for line in said.splitlines():
        question = _BULLET.sub("", line).strip()
        if _NO_QUESTIONS.match(question):
            break
        known = [set(stems(one.question)) - {"stand"} for one in settled if one.question.startswith("What")]
        asked = set(stems(question))
        if (
            question.endswith("?")
            and asked
            and not _PASSAGE_ONLY.search(question)
            and question not in found
            and not any(asked - {"stand", "mean", "refer"} <= one for one in known)
        ):
            found.append(question)
    return found[:QUESTIONS]


async def _pairs(asker: QuoteAsker, quote: SourceQuote, plan: StandalonePlan) -> list[QuoteFinding]:
    """End to end: a model names words of the quote and what they mean, from what it is shown of the document."""
    parts = {"document": document_text(quote, plan.variant), "snippet": quote.snippet}
    said = await asker.ask("pairs", parts, 2 * QUESTION_TOKENS)
    evidence = "\n\n".join(shown_texts(quote, plan.variant))
    found = list[QuoteFinding]()
    for line in said.splitlines()[:QUESTIONS]:
        match = _PAIR.match(line)
        at = rules.anchor(quote.snippet, f"“{match[1]}”") if match else None
        if match is None or at is None or match[1].casefold() not in quote.snippet.casefold():
            continue
        text = rules.addition(quote.snippet, match[2], at)
        if set(stems(text)) - set(stems(quote.snippet)):
            found.append(QuoteFinding(f"What is “{match[1]}”?", match[2], "", at, text, evidence))
    return found


async def _prompted(
    asker: QuoteAsker,
    quote: SourceQuote,
    plan: StandalonePlan,
    settled: Sequence[QuoteFinding],
    answers: Sequence[QuoteAnswer],
) -> tuple[list[QuoteSpan] | None, str]:
    """A free rewrite as spans, or why it is refused."""
    known = (*_as_answers(settled), *answers)
    lines = [f"{one.question if 'Q' in plan.rewriter_sees else ''} {one.answer}".strip() for one in known]
    shown = document_text(quote, plan.variant) if "D" in plan.rewriter_sees else ""
    if "E" in plan.rewriter_sees:
        shown += "\n\n" + "\n\n".join(dict.fromkeys(text for one in answers for text in one.evidence[-RETRIEVED:]))
    parts = {
        "document": f"<document>\n{shown.strip()}\n</document>\n\n" if shown.strip() else "",
        "snippet": quote.snippet,
        "answers": "\n".join(lines),
    }
    # Its own tags are put in by us and were not escaped: the words between them are, once more, on the way.
    said = await asker.ask("rewrite", parts, len(quote.snippet) // 2 + 200)
    text = regex.sub(r"^\W*Rewritten\s*:\s*", "", said.strip(), flags=regex.IGNORECASE).strip('"“”')

    def judged() -> tuple[list[QuoteSpan] | None, str]:
        spans, reason = read_rewrite(quote.snippet, text)
        if not reason:
            texts = [
                *(one.evidence for one in settled),
                *(text for one in answers for text in (*one.evidence, one.answer)),
                *shown_texts(quote, plan.variant),
            ]
            reason = spans_refused(quote.snippet, spans, EvidenceTexts(texts))
        return (None, reason) if reason else (spans, "")

    return await asyncio.to_thread(judged)


def passage_of(answer: QuoteAnswer, quote: SourceQuote) -> str:
    """The passage an answer stands in; empty where that is the lead, the title or the paragraph."""
    return answer.passage or best_passage(answer.answer, quote.passages)
