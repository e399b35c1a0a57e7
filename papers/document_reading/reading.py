"""Reading passages one by one: what each alone answers to a question, and whose answer is given.

A language model is shown one passage as a quotation; without one the sentence that matches the question best is the
answer, and to a question of yes or no whether that sentence denies. Which passages are read is left to whoever asks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import regex

from index.documents import Hit, Passage
from papers.asking import QuoteAsker, asks_whether
from plugins.evidence.source import clipped, numbered_texts
from server.turn.answer import answer_kind
from server.turn.events import AnswerKind
from server.turn.evidence import SentencePlace, best_sentences, sentence_chances
from server.turn.support import Support, SupportScorer
from text.words import negations

if TYPE_CHECKING:
    from index.rerank import Reranker
    from papers.document_reading.reader import TrainedReader

READ_TOKENS = 40
READ_SECONDS = 60.0
PASSAGE_CHARS = 4000

_CANNOT = regex.compile(
    r"\W*(?:cannot[_ ]answer|unanswerable|no answer|not (?:stated|given|specified|mentioned))\b", regex.I
)
_LABEL = regex.compile(r"^\W*answer\s*:\s*", regex.IGNORECASE)

PROMPTS = "papers.document_reading.prompts"


@dataclass(frozen=True, slots=True)
class PassageAnswer:
    """What one passage answers; `text` is empty and `confidence`, from 0 to 1, is 0 where it does not."""

    text: str
    kind: AnswerKind
    confidence: float


NOTHING = PassageAnswer("", "unanswerable", 0.0)


async def prompted_reading(asker: QuoteAsker, question: str, passage: str) -> PassageAnswer:
    """What a model answers from a passage; as confident as its tokens were likely, wholly where it does not tell.

    Raises AskingFailed.
    """
    # Told of yes and no, small models answer every question with one of them.
    form = " Answer with Yes or No." if asks_whether(question) else ""
    parts = {"passage": clipped(passage, PASSAGE_CHARS), "question": question, "form": form}
    said = await asker.say(f"{PROMPTS}:read", parts, READ_TOKENS, logprobs=True)
    answer = _LABEL.sub("", said.text.strip().split("\n")[0]).strip()
    kind = answer_kind(answer, [passage])
    if kind == "unanswerable" or _CANNOT.match(answer):
        return NOTHING
    return PassageAnswer(answer, kind, math.exp(said.logprob))


def quoted_reading(question: str, passages: Sequence[str], reranker: Reranker | None) -> PassageAnswer:
    """What a chat without a language model quotes first of the passages that were found for a question."""
    evidence = numbered_texts(passages)
    scorer, chances = SupportScorer(evidence), dict[SentencePlace, float]()
    if reranker is not None:
        hits = [Hit(Passage(str(one.n), "", "", one.text, one.start, one.end), 0.0) for one in evidence]
        read = {hit.passage.id: hit for hit in reranker.rerank(question, hits, READ_SECONDS, top=len(hits))}
        chances = sentence_chances(question, evidence, {one.n: read[str(one.n)] for one in evidence}, scorer)
    quotes = best_sentences(question, evidence, scorer, chances)
    return _of_sentence(question, quotes[0]) if quotes else NOTHING


def _of_sentence(question: str, sentence: Support) -> PassageAnswer:
    """A sentence as an answer; to a question of yes or no it is whether the sentence denies."""
    if asks_whether(question):
        denied = bool(negations(sentence.quote)) != bool(negations(question))
        return PassageAnswer("No" if denied else "Yes", "yes/no", sentence.score)
    return PassageAnswer(" ".join(sentence.quote.split()), "extractive", sentence.score)


def extracted_readings(question: str, passages: Sequence[str]) -> list[PassageAnswer]:
    """What each of the passages that were found for a question answers, by their words."""
    scorer = SupportScorer(numbered_texts(passages))
    best = (max(scorer.matches(question, n), key=lambda match: match.score) for n in range(1, len(passages) + 1))
    return [_of_sentence(question, one) if one.score else NOTHING for one in best]


def trained_readings(reader: TrainedReader, question: str, passages: Sequence[str]) -> list[PassageAnswer]:
    """What a reader of `anaphora train reader` answers from each of the passages."""
    found = zip(reader.read(question, passages), passages, strict=True)
    return [
        PassageAnswer(text, answer_kind(text, [passage]), chance) if text else NOTHING
        for (text, chance), passage in found
    ]


def chosen(answers: Sequence[PassageAnswer], relevances: Sequence[float]) -> PassageAnswer:
    """The answer that is likeliest by its passage's relevance (from 0 to 1) and by its own confidence; the earliest of
    equals."""
    worth = [relevance * answer.confidence for answer, relevance in zip(answers, relevances, strict=True)]
    return answers[max(range(len(worth)), key=worth.__getitem__)] if any(worth) else NOTHING
