"""Answers to a question about a quote, from its document: one sentence of it, or what a model says that it says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

import regex

from server.evidence.asking import QuoteAsker
from server.evidence.source import SourcePassage, SourceQuote, clipped, numbered_texts
from server.turn.support import SupportScorer
from text.sentences import sentence_spans
from text.words import stems

ANSWER_TOKENS = 60
PASSAGE_CHARS = 1200
WHOLE_CHARS = 24_000
"""Longest passage that a model is shown of those retrieved, and of a whole document."""

MATCHES = 0.5
"""Where no sentence matches the question this well, none answers it."""

_NONE = regex.compile(r"^\W*(?:no answer|none|unknown|n/?a|cannot[_ ]answer|not (?:stated|given|specified))\b", regex.I)
_LABEL = regex.compile(r"^(?:\W*(?:answer|explanation)\s*:\s*)", regex.IGNORECASE)


_PARTS: dict[str, tuple[str, Callable[[SourceQuote], str]]] = {
    "T": ("Title", attrgetter("title")),
    "A": ("Beginning", attrgetter("lead")),
    "I": ("Introduction", attrgetter("introduction")),
    "S": ("Section", attrgetter("section")),
    "P": ("Around the text", attrgetter("paragraph")),
}


@dataclass(frozen=True, slots=True)
class QuoteAnswer:
    """A question about a quote, its answer, and the passage it is from (empty: lead, title or paragraph).

    `evidence` are the words of the document that it was answered from.
    """

    question: str
    answer: str
    passage: str = ""
    evidence: tuple[str, ...] = ()


def document_text(quote: SourceQuote, variant: str) -> str:
    """What is shown of a document besides what is retrieved: T title, A lead (abstract), I introduction, S section's
    heading, P paragraph, as the letters of `variant` say."""
    return "\n\n".join(f"{_PARTS[letter][0]}: {text}" for letter in variant if (text := _PARTS[letter][1](quote)))


def shown_texts(quote: SourceQuote, variant: str) -> list[str]:
    """The texts of those parts, for comparing."""
    return [text for letter in variant if (text := _PARTS[letter][1](quote))]


async def prompted_answer(
    asker: QuoteAsker, quote: SourceQuote, question: str, passages: Sequence[SourcePassage], variant: str
) -> QuoteAnswer | None:
    """What a model answers; None where it says that the document does not say. Raises AskingFailed."""
    shown, room = list[str](), WHOLE_CHARS
    for one in passages:
        text = clipped(one.text, PASSAGE_CHARS)
        if len(text) > room:
            break
        room -= len(text)
        shown.append(text)
    parts = {
        "document": document_text(quote, variant),
        "snippet": quote.snippet,
        "passages": "".join(f"Elsewhere in the document: {text}\n\n" for text in shown),
        "question": question,
    }
    said = _LABEL.sub("", (await asker.ask("answer", parts, ANSWER_TOKENS)).split("\n")[0]).strip()
    if not stems(said) or _NONE.match(said):
        return None
    texts = (*shown_texts(quote, variant), *(one.text for one in passages))
    return QuoteAnswer(question, said, best_passage(said, passages), texts)


def extracted_answer(
    quote: SourceQuote, question: str, passages: Sequence[SourcePassage], variant: str
) -> QuoteAnswer | None:
    """The sentence that matches a question best; None where none does well enough."""
    sources = [("", text) for text in shown_texts(quote, variant.replace("T", "").replace("S", ""))]
    sources += [(one.id, one.text) for one in passages]
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


def best_passage(answer: str, passages: Sequence[SourcePassage]) -> str:
    """The passage with a sentence that holds most of an answer's words, at least half of them."""
    wanted, best, share = set(stems(answer)), "", 0.5
    for one in passages:
        for start, end in sentence_spans(one.text):
            found = len(wanted & set(stems(one.text[start:end]))) / max(1, len(wanted))
            if found > share:
                best, share = one.id, found
    return best
