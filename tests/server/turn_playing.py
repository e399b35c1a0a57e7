"""Playing a turn from question to its last event, for tests of the pipeline."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from rewriter import Conversation, Message, PassThroughRewriter, Rewrite
from server.settings import Settings
from server.turn.events import (
    CitationEvent,
    DoneEvent,
    ErrorEvent,
    Event,
    FoldEvent,
    SupportEvent,
    TokenEvent,
)
from server.turn.models import TurnModels
from server.turn.run import TurnEngine, TurnInput
from tests.chat_model import ScriptedChatModel
from tests.server.turn_fakes import FakeCollection

FOLLOW_UP = Conversation((Message("user", "How long is parental leave?"), Message("assistant", "Ten weeks [1].")))


class Fixed:
    """A rewriter of few words."""

    name = "fixed"

    def __init__(self, text: str, confidence: float | None = None, after: threading.Event | None = None) -> None:
        self._text, self._confidence, self._after = text, confidence, after

    def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
        if self._after is not None:
            self._after.wait(40)
        return Rewrite(self._text, "rewrite", self._confidence)


def engine(
    script: list[Any] | None = None,
    *,
    collection: FakeCollection | None = None,
    settings: Settings | None = None,
    **parts: Any,
) -> TurnEngine:
    """An engine over a fake collection; without a script it has no model."""
    found = collection or FakeCollection()
    model = parts.pop("model", None) or (ScriptedChatModel(script=script) if script is not None else None)
    style, pairs = parts.pop("style", "short"), parts.pop("pairs", None)
    models = TurnModels(
        parts.pop("rewriter", PassThroughRewriter()), parts.pop("reranker", None), model, style=style, pairs=pairs
    )
    return TurnEngine(collection=lambda _: found, models=models, settings=settings or Settings(), **parts)


def play(turns: TurnEngine, question: str = "How long is leave?", **options: Any) -> list[Event]:
    async def gather() -> list[Event]:
        return [event async for event in turns.run(TurnInput(question=question, collection="docs", **options))]

    events = asyncio.run(gather())
    check_order(events)
    return events


def check_order(events: list[Event]) -> None:
    """What every reader of the stream relies on."""
    last = events[-1]
    assert isinstance(last, DoneEvent | ErrorEvent)
    assert not any(isinstance(event, DoneEvent | ErrorEvent) for event in events[:-1])
    kinds = [event.type for event in events[:-1]]
    # A follow-up that is searched as a new question, too, tells both searches.
    assert kinds[kinds[:2] == ["rewrite", "rewrite"] :][:2] == ["rewrite", "evidence"][: len(kinds)]
    said, taken_back, marks = "", "", list[CitationEvent | SupportEvent]()
    for event in events:
        if isinstance(event, TokenEvent):
            said += event.text
        elif isinstance(event, SupportEvent):
            marks = [event if _same_place(event, mark) else mark for mark in marks]
            marks += [event] if event not in marks else []
        elif isinstance(event, CitationEvent):
            marks.append(event)
        elif isinstance(event, FoldEvent):
            taken_back, said = taken_back + said[event.start :], said[: event.start]
            marks = [mark for mark in marks if mark.answer_start < event.start]
    assert said == last.answer
    if isinstance(last, DoneEvent):
        assert last.citations == [mark for mark in marks if isinstance(mark, CitationEvent)]
        assert last.support == [mark for mark in marks if isinstance(mark, SupportEvent)]
        # What a house never says is not shown as folded either.
        assert last.folded.replace("\n\n", "") in ("", taken_back.replace("\n\n", ""))


def _same_place(event: SupportEvent, mark: CitationEvent | SupportEvent) -> bool:
    """Whether an event judges a statement again."""
    places = ((one.answer_start, one.answer_end) for one in (event, mark))
    return isinstance(mark, SupportEvent) and len(set(places)) == 1


def done(events: list[Event]) -> DoneEvent:
    assert isinstance(events[-1], DoneEvent)
    return events[-1]


def failed(events: list[Event]) -> ErrorEvent:
    assert isinstance(events[-1], ErrorEvent)
    return events[-1]
