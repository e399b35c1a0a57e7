"""Variants of making a quote readable that were measured: see `StandalonePlan`.

`plugins.evidence.decontextualize` has the rules of the product, without the one for terms that the document defines;
`papers.decontextualization.questions` the steps in which a model asks and answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Literal

import regex

from papers.asking import QuoteAsker, prompts_version
from papers.decontextualization.questions import (
    QUESTION_TOKENS,
    QUESTIONS,
    RETRIEVED,
    addition,
    anchor,
    inserted,
    prompted_answer,
    questions_of,
    retrieved_passages,
    shortened,
)
from papers.decontextualization.rewriting import read_rewrite, spans_refused
from papers.decontextualization.rules import (
    QuoteAnswer,
    QuoteFinding,
    SourceQuote,
    StandaloneQuote,
    as_answers,
    first_by_place,
    rule_findings,
    texts_of,
    unchanged,
)
from papers.rewrite_checks import EvidenceTexts
from papers.spans import QuoteSpan, bracketed
from papers.within import Within
from plugins.evidence.decontextualize import QUOTE_CHARS, place_behind
from plugins.evidence.source import SourcePassage, numbered_texts
from server.turn.support import SupportScorer
from text.sentences import sentence_spans
from text.words import FUNCTION_WORDS, stems

DEFINITION_WORDS = 24
MATCHES = 0.5
"""Where no sentence matches the question this well, none answers it."""

PROMPTS = "papers.decontextualization.prompts"
StandaloneMethod = Literal["insert", "prompted"]

_DEFINES = (
    r"(?:\s*\([^()]*\))?(?:,?\s+(?:is|are|was|were)\s+(?=(?:an?|the|our|one of|based|designed|used|introduced)\b)"
    r"|\s+(?:refers? to|means|stands for|denotes|consists of|contains|comprises|is defined as|is called)\s+"
    r"|,\s+(?=(?:an?|which (?:is|are))\b))"
)
_NO_TERM = regex.compile(r"we|our|this|in|figs?|figures?|tables?|sections?|\w*ref\d+|inlineform\d*", regex.IGNORECASE)
_PAIR = regex.compile(r"^\s*(?:[-*•]\s*)?[\"“`]?(.{2,80}?)[\"”`]?\s*=>\s*(.{2,300})$")


@dataclass(frozen=True, slots=True)
class PaperQuote(SourceQuote):
    """A quote of a paper that has an introduction."""

    introduction: str = ""


_PARTS: dict[str, tuple[str, Callable[[SourceQuote], str]]] = {
    "T": ("Title", attrgetter("title")),
    "A": ("Beginning", attrgetter("lead")),
    "I": ("Introduction", lambda quote: getattr(quote, "introduction", "")),
    "S": ("Section", attrgetter("section")),
    "P": ("Around the text", attrgetter("paragraph")),
}


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
        names = ("questions", "answer", f"{PROMPTS}:rewrite", f"{PROMPTS}:pairs")
        plan = f"{self.method}.{self.variant}.{self.whole:d}{self.direct:d}{self.rules:d}.{self.rewriter_sees}"
        return f"{prompts_version(*names)}.{plan}"


@dataclass(frozen=True, slots=True)
class StandaloneGiven:
    """Precomputed values that replace a step: questions, passages for each question, answers."""

    questions: Sequence[str] | None = None
    passages: Mapping[str, Sequence[SourcePassage]] = field(default_factory=dict)
    answers: Sequence[QuoteAnswer] | None = None


def find(quote: SourceQuote) -> list[QuoteFinding]:
    """The additions that the rules of the product and definitions find; at most one per place."""
    return first_by_place((*rule_findings(quote), *_definitions(quote)))


def _definitions(quote: SourceQuote) -> Iterator[QuoteFinding]:
    for term, end in _terms(quote.snippet):
        pattern = regex.compile(rf"(?<![\p{{L}}\p{{N}}]){regex.escape(term)}{_DEFINES}")
        if pattern.search(quote.snippet):
            continue
        for passage, text in texts_of(quote):
            if not pattern.search(text):
                continue
            definition = next(
                (_defined(pattern, text[a:b], term) for a, b in sentence_spans(text) if term in text[a:b]), None
            )
            if definition and not set(stems(definition[0])) <= set(stems(quote.snippet)):
                at = place_behind(quote.snippet, end)
                if at is not None:
                    yield QuoteFinding(f"What is {term}?", definition[0], passage, at, definition[0], definition[1])
                break


def _defined(pattern: regex.Pattern[str], sentence: str, term: str) -> tuple[str, str] | None:
    match = pattern.search(sentence)
    if match is None:
        return None
    meaning = sentence[match.end() :].strip().rstrip(".").strip()
    meaning = regex.sub(r"^which (?:is|are) ", "", regex.sub(r"\s*\[[^\[\]]*\]|\s*\([^()]*\)", "", meaning))
    cut = shortened(meaning, DEFINITION_WORDS)
    return (cut, sentence) if len(stems(cut)) >= 2 else None


def _terms(snippet: str) -> Iterator[tuple[str, int]]:
    """Names in a quote that a document may define: not at the beginning of a sentence, each once."""
    starts = {start for start, _ in sentence_spans(snippet)}
    seen = set[str]()
    for match in regex.finditer(r"(?:`([^`\n]{2,40})`|\b\p{Lu}[\p{L}\p{N}\-]*\p{L}[\p{L}\p{N}\-]*\b)", snippet):
        term = match[1] or match.group()
        common = term.casefold() in FUNCTION_WORDS or _NO_TERM.fullmatch(term)
        distinct = any(char.isupper() for char in term[1:]) or match[1]
        if term in seen or common or (match.start() in starts and not distinct):
            continue
        seen.add(term)
        yield term, match.end()


def document_text(quote: SourceQuote, variant: str) -> str:
    """Return the part of a document to show besides the retrieved passages: T title, A lead (abstract), I introduction,
    S section's heading, P paragraph, as the letters of `variant` say."""
    return "\n\n".join(f"{_PARTS[letter][0]}: {text}" for letter in variant if (text := _PARTS[letter][1](quote)))


def shown_texts(quote: SourceQuote, variant: str) -> list[str]:
    """The texts of those parts, for comparing."""
    return [text for letter in variant if (text := _PARTS[letter][1](quote))]


def _document(quote: SourceQuote, variant: str) -> dict[str, str]:
    """The same by name."""
    return {_PARTS[letter][0]: text for letter in variant if (text := _PARTS[letter][1](quote))}


def extracted_answer(
    quote: SourceQuote, question: str, passages: Sequence[SourcePassage], variant: str
) -> QuoteAnswer | None:
    """The sentence that matches a question best; None where none does well enough."""
    sources = [("", text) for text in shown_texts(quote, variant.replace("T", "").replace("S", ""))]
    sources += [(passage.id, passage.text) for passage in passages]
    if not sources:
        return None
    scorer = SupportScorer(numbered_texts([text for _, text in sources]))
    own, snippet = set(stems(question)), set(stems(quote.snippet))
    best, score = None, MATCHES
    for n, (name, _) in enumerate(sources, 1):
        for match in scorer.matches(question, n):
            new = set(stems(match.quote)) - own - snippet
            if match.score > score and len(new) > 1 and match.quote not in quote.snippet:
                best, score = (name, match.quote), match.score
    if best is None:
        return None
    name, sentence = best
    return QuoteAnswer(question, " ".join(sentence.split()), name, (sentence,))


async def make_standalone(
    quote: SourceQuote,
    plan: StandalonePlan,
    asker: QuoteAsker | None = None,
    within: Within | None = None,
    precomputed: StandaloneGiven | None = None,
) -> StandaloneQuote:
    """The quote with what its readers lack. `within` holds the texts of `quote.passages`, in their order.

    Without an `asker` no model is asked. Raises AskingFailed. Blocking work runs in threads.
    """
    precomputed = precomputed or StandaloneGiven()
    if len(quote.snippet) > QUOTE_CHARS:
        return unchanged(quote, f"The quote has more than {QUOTE_CHARS:,} characters; quote less of the document.")
    settled = await asyncio.to_thread(find, quote) if plan.rules else []
    if precomputed.answers is not None:
        answers = list(precomputed.answers)
    elif asker is not None and plan.direct and precomputed.questions is None:
        pairs = await _pairs(asker, quote, plan)
        return await asyncio.to_thread(inserted, quote, [*settled, *pairs], [])
    else:
        questions = list(precomputed.questions) if precomputed.questions is not None else []
        if precomputed.questions is None and asker is not None:
            questions = await questions_of(asker, quote, settled)
        answers = []
        for question in questions:
            passages = precomputed.passages.get(question)
            if passages is None:
                passages = await asyncio.to_thread(_retrieved, quote, question, plan, within)
            if asker is None:
                answer = await asyncio.to_thread(extracted_answer, quote, question, passages, plan.variant)
            else:
                answer = await prompted_answer(asker, quote, question, passages, _document(quote, plan.variant))
            if answer is not None:
                answers.append(answer)
    refused = ""
    if plan.method == "prompted" and asker is not None:
        rewritten, refused = await _prompted(asker, quote, plan, settled, answers)
        if rewritten is not None:
            questions_asked = (*as_answers(settled), *answers)
            return StandaloneQuote(bracketed(rewritten), tuple(rewritten), questions_asked)
    result = await asyncio.to_thread(inserted, quote, settled, answers)
    return replace(result, refused=refused) if refused else result


def _retrieved(
    quote: SourceQuote, question: str, plan: StandalonePlan, within: Within | None
) -> Sequence[SourcePassage]:
    return (
        quote.passages if plan.whole else retrieved_passages(quote, question, shown_texts(quote, plan.variant), within)
    )


async def _pairs(asker: QuoteAsker, quote: SourceQuote, plan: StandalonePlan) -> list[QuoteFinding]:
    """End to end: a model names words of the quote and what they mean, from what it is shown of the document."""
    parts = {"document": document_text(quote, plan.variant), "snippet": quote.snippet}
    reply = await asker.ask(f"{PROMPTS}:pairs", parts, 2 * QUESTION_TOKENS)
    evidence = "\n\n".join(shown_texts(quote, plan.variant))
    pairs = list[QuoteFinding]()
    for line in reply.splitlines()[:QUESTIONS]:
        match = _PAIR.match(line)
        at = anchor(quote.snippet, f"“{match[1]}”") if match else None
        if match is None or at is None or match[1].casefold() not in quote.snippet.casefold():
            continue
        text = addition(quote.snippet, match[2], at)
        if set(stems(text)) - set(stems(quote.snippet)):
            pairs.append(QuoteFinding(f"What is “{match[1]}”?", match[2], "", at, text, evidence))
    return pairs


async def _prompted(
    asker: QuoteAsker,
    quote: SourceQuote,
    plan: StandalonePlan,
    settled: Sequence[QuoteFinding],
    answers: Sequence[QuoteAnswer],
) -> tuple[list[QuoteSpan] | None, str]:
    """A free rewrite as spans, or why it is refused."""
    all_answers = (*as_answers(settled), *answers)
    lines = [
        f"{answer.question if 'Q' in plan.rewriter_sees else ''} {answer.answer}".strip() for answer in all_answers
    ]
    document = document_text(quote, plan.variant) if "D" in plan.rewriter_sees else ""
    if "E" in plan.rewriter_sees:
        document += "\n\n" + "\n\n".join(
            dict.fromkeys(text for answer in answers for text in answer.evidence[-RETRIEVED:])
        )
    parts = {
        "document": f"<document>\n{document.strip()}\n</document>\n\n" if document.strip() else "",
        "snippet": quote.snippet,
        "answers": "\n".join(lines),
    }
    # Its own tags are put in by us and were not escaped: the words between them are, once more, on the way.
    reply = await asker.ask(f"{PROMPTS}:rewrite", parts, len(quote.snippet) // 2 + 200)
    text = regex.sub(r"^\W*Rewritten\s*:\s*", "", reply.strip(), flags=regex.IGNORECASE).strip('"“”')

    def judged() -> tuple[list[QuoteSpan] | None, str]:
        spans, reason = read_rewrite(quote.snippet, text)
        if not reason:
            texts = [
                *(finding.evidence for finding in settled),
                *(text for answer in answers for text in (*answer.evidence, answer.answer)),
                *shown_texts(quote, plan.variant),
            ]
            reason = spans_refused(quote.snippet, spans, EvidenceTexts(texts))
        return (None, reason) if reason else (spans, "")

    return await asyncio.to_thread(judged)
