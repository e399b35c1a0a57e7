"""Turns as they were answered, what a run keeps of them, and a language model as their judge (G-Eval, Liu et al. 2023).

A judge gives one number from 1 to 5 for each criterion, each asked for alone; where the model tells log probabilities,
the score is the mean over the numbers weighted by them, else the number it wrote. The rubric is a file of its own. A
model's judgement is no person's: small models hardly tell 3 from 5.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import regex

from evaluation.questions import Question
from evaluation.run_folder import RunWriter
from evaluation.sets import EvalSet
from server.turn.events import DoneEvent, ErrorEvent, Event, EvidenceEvent, RewriteEvent

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

_MARKER = regex.compile(r"[ ]?\[\d{1,3}\]")


_KEPT = {"n", "passage_id", "document_id", "title", "heading", "start", "end", "text", "score"}


@dataclass(frozen=True, slots=True)
class AnsweredTurn:
    """Outcome of one question. `status` is a turn's (`server.turn.events.Status`) or `error`."""

    id: str
    question: str
    searched: str
    status: str
    answer: str
    passages: tuple[Mapping[str, Any], ...] = ()
    """Number, id, document, title, text and score of the evidence."""

    citations: tuple[Mapping[str, Any], ...] = ()
    """Number cited, offset in the answer, whether the server attributed it, and the quoted span of the document."""

    support: tuple[Mapping[str, Any], ...] = ()
    """Offsets of each statement, the numbers it cites, its score, and whether it is supported."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    tokens: Mapping[str, int] = field(default_factory=dict)
    dropped: int = 0
    problem: str = ""
    turn_id: str = ""
    doubted: bool = False
    """Whether it says itself that it may not answer."""


def answered(question: Question, events: Sequence[Event]) -> AnsweredTurn:
    """Read the events of a turn into an outcome."""
    rewrite = next((event for event in events if isinstance(event, RewriteEvent)), None)
    evidence = next((event for event in events if isinstance(event, EvidenceEvent)), None)
    event = events[-1]
    assert isinstance(event, DoneEvent | ErrorEvent), "a turn ends with `done` or `error`"
    turn = AnsweredTurn(
        id=question.id,
        question=question.text,
        searched=rewrite.text if rewrite else question.text,
        status="error",
        answer=event.answer,
        passages=tuple(passage.model_dump(include=_KEPT) for passage in evidence.passages) if evidence else (),
        seconds=event.seconds,
        turn_id=event.turn_id,
    )
    if isinstance(event, ErrorEvent):
        return replace(turn, problem=f"{event.code}: {event.message}")
    return replace(
        turn,
        status=event.status,
        citations=tuple(
            {
                "n": c.n,
                "passage_id": c.passage_id,
                "at": c.answer_start,
                "attributed": c.attributed,
                "place": (c.document_id, c.start, c.end),
            }
            for c in event.citations
        ),
        support=tuple(support.model_dump(exclude={"type"}) for support in event.support),
        tokens={"prompt": event.prompt_tokens, "completion": event.completion_tokens},
        dropped=event.dropped_citations,
        doubted=event.doubted,
    )


def plain(answer: str) -> str:
    """An answer without its citation markers."""
    return _MARKER.sub("", answer).strip()


def show(chosen: EvalSet, system: str, turns: Mapping[str, AnsweredTurn], writer: RunWriter) -> None:
    """Write into the run what was asked and what came of it, for comparisons to show."""
    questions = [question for question in chosen.questions if question.id in turns]
    writer.write_rows(
        (
            {
                "id": question.id,
                "shown": [
                    f"{turns[question.id].status}: {turns[question.id].answer}",
                    f"reference ({question.answerability or 'answerability unknown'}): {question.answer}",
                    *(f"[{p['n']}] {p['title']}: {p['text']}" for p in turns[question.id].passages[:2]),
                ],
            }
            for question in questions
        ),
        chosen.name,
        system,
        "evidence.jsonl",
    )
    writer.write_questions(
        chosen.name, questions, lambda question: {"answer": question.answer, "answerability": question.answerability}
    )


_NUMBER = regex.compile(r"[1-5]")


def rate(model: BaseChatModel, system: str, prompt: str) -> tuple[float | None, str]:
    """Ask a model for one number; return the score from 1 to 5, None where it gave none, and its words. Blocks."""
    from langchain_core.messages import HumanMessage, SystemMessage

    asked = model.bind(logprobs=True, top_logprobs=10, max_tokens=4)
    reply = asked.invoke([SystemMessage(system), HumanMessage(prompt)])
    score = expected(reply.response_metadata.get("logprobs"))
    written = _NUMBER.search(reply.text)
    return (float(written.group()) if score is None and written else score), reply.text


def expected(logprobs: object) -> float | None:
    """The mean number of the first token that can be one, weighted by probability; None where none can."""
    tokens = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    for token in tokens or ():
        weights: dict[int, float] = {}
        for option in token.get("top_logprobs") or ():
            text = str(option["token"]).strip()
            if len(text) == 1 and text in "12345":
                weights[int(text)] = weights.get(int(text), 0.0) + math.exp(option["logprob"])
        if weights and str(token.get("token", "")).strip() in tuple("12345"):
            return sum(number * weight for number, weight in weights.items()) / sum(weights.values())
    return None
