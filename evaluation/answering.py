"""Answers as a chat gives them: every question of a set through the turn's own event stream, kept as it comes.

Each finished turn is one line of a journal at once, so that an evaluation of hours can be stopped and gone on with. The
answers are judged in `evaluation.answer_measures`.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation.errors import BadRow
from evaluation.sets.base import Question, json_rows
from server.turn.events import DoneEvent, ErrorEvent, Event, EvidenceEvent, RewriteEvent
from server.turn.generate import logprobs_of
from server.turn.run import TurnInput
from text.recorder import Recording

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk, BaseMessage

    from server.turn.run import TurnEngine


_KEPT = {"n", "passage_id", "document_id", "title", "heading", "start", "end", "text", "score"}


@dataclass(frozen=True, slots=True)
class AnsweredTurn:
    """Outcome of one question. `status` is a turn's (`answered`, `quoted`, `refused`) or `error`."""

    id: str
    question: str
    searched: str
    status: str
    answer: str
    passages: tuple[Mapping[str, Any], ...] = ()
    """Number, id, document, title, text and score of the evidence."""

    citations: tuple[Mapping[str, Any], ...] = ()
    """Number cited, offset in the answer, and whether the server attributed it."""

    support: tuple[Mapping[str, Any], ...] = ()
    """Offsets of each statement, the numbers it cites, its score, and whether it is supported."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    tokens: Mapping[str, int] = field(default_factory=dict)
    perplexity: float | None = None
    """Of the answer as the model wrote it, by its own log probabilities; None where it gave none."""

    dropped: int = 0
    problem: str = ""
    turn_id: str = ""
    asks_back: bool = False
    """Whether it asks which of several things is meant."""

    def row(self) -> dict[str, Any]:
        """As a line of the journal."""
        return asdict(self)


@dataclass(slots=True)
class Listening:
    """A chat model whose log probabilities are asked for and remembered; all that a turn uses is `astream`."""

    model: BaseChatModel
    logprobs: list[float] = field(default_factory=list)

    async def astream(self, messages: Sequence[BaseMessage], **options: Any) -> AsyncIterator[AIMessageChunk]:
        """As the model's own."""
        self.logprobs = []
        async for chunk in self.model.astream(list(messages), **{**options, "logprobs": True}):
            self.logprobs += logprobs_of(chunk)
            yield chunk

    @property
    def perplexity(self) -> float | None:
        """Of what was last written."""
        return math.exp(-sum(self.logprobs) / len(self.logprobs)) if self.logprobs else None


def read_journal(path: Path) -> dict[str, AnsweredTurn]:
    """The turns of a journal by question; none where there is no file. A torn last line is passed over.

    Raises BadRow for any other line that is no turn.
    """
    if not path.is_file():
        return {}
    text = path.read_text("utf-8")
    if text and not text.endswith("\n"):
        path.write_text(text[: text.rfind("\n") + 1], "utf-8")
    turns = {}
    for where, row in json_rows(path):
        try:
            turn = AnsweredTurn(**row)
        except TypeError as error:
            raise BadRow(f"{where} is no answered turn ({error}).") from None
        turns[turn.id] = turn
    return turns


async def answer_all(
    engine: TurnEngine,
    questions: Sequence[Question],
    journal: Path,
    *,
    collection: str,
    listening: Listening | None = None,
    content: bool = True,
    seconds: float = math.inf,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> dict[str, AnsweredTurn]:
    """Ask every question the journal does not know yet, one after the other; the turns by question.

    The calls of each turn are kept beside the journal (`.traces.jsonl`), with `content` in words.
    Stops before a new question once `seconds` are over: then fewer turns than questions come back. A turn that
    ended in an error is asked again the next time.
    """
    finished = {name: turn for name, turn in read_journal(journal).items() if turn.status != "error"}
    wanted = {question.id for question in questions}
    done = {name: turn for name, turn in finished.items() if name in wanted}
    until = time.monotonic() + seconds
    for question in questions:
        if question.id in done:
            continue
        if time.monotonic() > until:
            break
        progress("answering", len(done), len(questions))
        recording = Recording("turn", content=content)
        with recording.root as call:
            call.inputs(question=question.text)
            turn = await _ask(engine, question, collection, listening)
            call.output({"answer": turn.answer})
        _keep(turn.row(), journal)
        _keep({"id": question.id, "calls": recording.calls()}, journal.with_suffix(".traces.jsonl"))
        done[question.id] = turn
    progress("answering", len(done), len(questions))
    return done


def _keep(row: Mapping[str, Any], journal: Path) -> None:
    journal.parent.mkdir(parents=True, exist_ok=True)
    with journal.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


async def _ask(engine: TurnEngine, question: Question, collection: str, listening: Listening | None) -> AnsweredTurn:
    if listening is not None:
        listening.logprobs = []
    running = engine.run(TurnInput(question=question.text, collection=collection, conversation=question.conversation))
    return answered(question, [event async for event in running], listening)


def answered(question: Question, events: Sequence[Event], listening: Listening | None = None) -> AnsweredTurn:
    """Read the events of a turn into an outcome."""
    rewrite = next((event for event in events if isinstance(event, RewriteEvent)), None)
    evidence = next((event for event in events if isinstance(event, EvidenceEvent)), None)
    searched = rewrite.text if rewrite else question.text
    passages = [passage.model_dump(include=_KEPT) for passage in evidence.passages] if evidence else []
    event = events[-1]
    assert isinstance(event, DoneEvent | ErrorEvent), "a turn ends with `done` or `error`"
    ended = AnsweredTurn(
        id=question.id,
        question=question.text,
        searched=searched,
        status="error",
        answer=event.answer,
        passages=tuple(passages),
        seconds=event.seconds,
        turn_id=event.turn_id,
    )
    if isinstance(event, ErrorEvent):
        return replace(ended, problem=f"{event.code}: {event.message}")
    return replace(
        ended,
        status=event.status,
        citations=tuple(
            {"n": c.n, "passage_id": c.passage_id, "at": c.answer_start, "attributed": c.attributed}
            for c in event.citations
        ),
        support=tuple(support.model_dump(exclude={"type"}) for support in event.support),
        tokens={"prompt": event.prompt_tokens, "completion": event.completion_tokens},
        perplexity=listening.perplexity if listening is not None else None,
        dropped=event.dropped_citations,
        asks_back=bool(event.alternatives),
    )
