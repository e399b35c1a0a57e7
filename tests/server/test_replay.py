"""Turns played again: the same where nothing is changed, and changed just as far as a change reaches."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from index.documents import Passage
from rewriter import Conversation, PassThroughRewriter
from server.replay import ReplayChanges, ReplayError, replay
from server.settings import RetrievalSettings, Settings
from server.store.records import Trace
from server.tracing import Tracing, differences, grafted
from server.turn.events import DoneEvent, Event, EvidenceEvent, tell_evidence
from server.turn.models import TurnModels
from server.turn.run import TurnEngine, TurnInput
from tests.chat_model import ScriptedChatModel
from tests.server.turn_fakes import FAX, FakeCollection, Reversing, passage
from tests.server.turn_playing import FOLLOW_UP, Fixed


class Library(FakeCollection):
    """A collection that also knows its passages by document."""

    def passages(self, document_id: str) -> list[Passage]:
        found = [passage(text, f"d{n}.md") for n, text in enumerate(self.texts, 1)]
        return [one for one in found if one.document_id == document_id]

    def documents(self) -> list[Any]:
        return []


class Counting:
    """What a replay asks anew."""

    def __init__(self, script: list[Any] | None = None) -> None:
        self.collection, self.reranker = Library(), Reversing()
        self.model = ScriptedChatModel(script=script or ["By fax ", "too [1]."])
        self.models = 0

    async def source(self) -> TurnModels:
        self.models += 1
        return TurnModels(PassThroughRewriter(), self.reranker, self.model, "another")


def live(
    script: list[Any] | None,
    settings: Settings,
    conversation: Conversation = FOLLOW_UP,
    reranker: Any = None,
    question: str = "and by fax?",
    rewriter: Any = None,
) -> tuple[Trace, list[Event]]:
    """A turn as the service records it."""
    tracing = Tracing(content=True)
    model = ScriptedChatModel(script=script) if script is not None else None
    models = TurnModels(rewriter or Fixed("May leave be faxed?"), reranker, model, "scripted" if script else "none")
    library = Library()
    turns = TurnEngine(collection=lambda _: library, models=models, settings=settings)

    async def run() -> list[Event]:
        events = []
        with turn:
            async for event in turns.run(
                TurnInput(question=question, collection="docs", conversation=conversation, turn_id="t1")
            ):
                if isinstance(event, EvidenceEvent):
                    with turn.begin("evidence") as step:
                        tell_evidence(step, event)
                events.append(event)
        return events

    turn = tracing.begin_turn("t1", None, "docs", question)
    events = asyncio.run(run())
    last = events[-1]
    assert isinstance(last, DoneEvent)
    # As it comes back from the database.
    return Trace.model_validate_json(tracing.end(turn, last.status, last.answer).model_dump_json()), events


def again(
    trace: Trace, events: list[Event], anew: Counting, settings: Settings, **changes: Any
) -> tuple[Trace, list[Event]]:
    tracing = Tracing(content=True)
    turn = tracing.begin_turn("t1", None, "docs", trace.question)

    async def run() -> list[Event]:
        with turn:
            return await replay(
                trace,
                collection=lambda _: anew.collection,
                reranker=lambda: anew.reranker,
                models=anew.source,
                settings=settings,
                changes=ReplayChanges(**changes),
            )

    played = asyncio.run(run())
    last = played[-1]
    assert isinstance(last, DoneEvent)
    return grafted(tracing.end(turn, last.status, last.answer), trace), played


def untimed(events: list[Event]) -> list[dict[str, Any]]:
    return [event.model_dump(exclude={"seconds"}) for event in events]


SCRIPT = ["The form may be ", "sent by fax", " [1]. And", " more [2]."]


@pytest.mark.parametrize("script", [SCRIPT, None, ["<cannot_answer>"]])
def test_an_unchanged_replay_gives_the_same_events_and_asks_nobody(script: list[Any] | None) -> None:
    trace, events = live(script, Settings(), reranker=Reversing())
    anew = Counting()
    replayed, played = again(trace, events, anew, Settings())

    assert untimed(played) == untimed(events)
    assert (anew.collection.asked, anew.reranker.asked, anew.models) == ([], [], 0)
    assert {one.status for one in differences(trace, replayed)} == {"same"}


def test_another_rewrite_runs_what_it_changes() -> None:
    trace, events = live(SCRIPT, Settings())
    anew = Counting()
    replayed, _ = again(trace, events, anew, Settings(), rewrite="Is there a form to be faxed?")
    changed = {one.path: one.changed for one in differences(trace, replayed) if one.status != "same"}

    assert len(anew.collection.asked) == 1
    assert "Is there a form to be faxed?" in [query.text for query in anew.collection.asked[0][0]]
    assert changed.keys() >= {"turn/rewrite", "turn/search"}
    assert "prompt" in changed["turn/generate"]
    assert anew.models == 1


def test_other_weights_leave_the_rewrite_and_what_comes_out_the_same_alone() -> None:
    settings = Settings(retrieval=RetrievalSettings(profile={"variants": {"typed": {"lexical": 0.1, "dense": 0.1}}}))
    trace, events = live(SCRIPT, Settings())
    anew = Counting()
    replayed, played = again(trace, events, anew, settings)
    changed = {one.path: one.changed for one in differences(trace, replayed) if one.status != "same"}

    assert len(anew.collection.asked) == 1
    assert changed == {"turn/search": ("inputs",)}
    assert anew.models == 0
    assert untimed(played[-1:]) == untimed(events[-1:])


def test_evidence_is_dropped_and_added() -> None:
    trace, events = live(SCRIPT, Settings())
    anew = Counting()
    _, played = again(trace, events, anew, Settings(), drop=(1,))
    evidence = next(one for one in played if isinstance(one, EvidenceEvent))
    added = again(trace, events, anew, Settings(), add=("d2.md",))[1]
    first = next(one for one in added if isinstance(one, EvidenceEvent)).passages[0]

    assert [one.text for one in evidence.passages] == [FAX]
    assert first.text == FAX
    assert anew.collection.asked == []
    with pytest.raises(ReplayError, match="There is no source 9"):
        again(trace, events, anew, Settings(), drop=(9,))
    with pytest.raises(ReplayError, match="no passage and no document"):
        again(trace, events, anew, Settings(), add=("gone.md",))


@pytest.mark.parametrize("changes", [{"prompt": "Answer in rhymes."}, {"another_model": True}])
def test_another_prompt_or_model_changes_the_answer_alone(changes: dict[str, Any]) -> None:
    trace, events = live(SCRIPT, Settings())
    anew = Counting()
    replayed, played = again(trace, events, anew, Settings(), **changes)
    changed = {one.path: one.changed for one in differences(trace, replayed) if one.status != "same"}

    assert changed.keys() <= {"turn", "turn/generate"}
    assert ("prompt" in changed["turn/generate"]) is ("prompt" in changes)
    assert untimed(played[:2]) == untimed(events[:2])
    assert untimed(played[-1:]) != untimed(events[-1:])
    assert anew.collection.asked == []


@pytest.mark.parametrize(("question", "reason"), [("", "holds no texts"), ("thanks!", "searched for nothing")])
def test_a_trace_without_texts_or_a_search_is_not_replayed(question: str, reason: str) -> None:
    kept = Trace(
        turn_id="t0", conversation_id=None, collection="docs", collection_version="v", engine="none",
        status="answered", created=1.0, seconds=2.0, steps=(), question=question,
    )  # fmt: skip
    with pytest.raises(ReplayError, match=reason):
        again(kept, [], Counting(), Settings())


def test_a_turn_answered_part_by_part_is_played_again_part_by_part() -> None:
    question, settings = "How long is the strike fund and who may vote on it?", Settings()
    trace, events = live(["Ten weeks [1]."], settings, Conversation(), Reversing(), question, PassThroughRewriter())
    assert trace.values["split"] == "parts"
    anew = Counting()
    replayed, again_events = again(trace, events, anew, settings)
    kinds = [event.type for event in events]
    assert [event.type for event in again_events] == kinds
    assert [one.text for one in again_events if one.type == "token"] == [
        one.text for one in events if one.type == "token"
    ]
    assert anew.models == 0
    assert not anew.collection.asked
    within = [{one.name for one in step.calls} for step in replayed.steps if step.name == "part"]
    assert len(within) == 2
    assert all({"rewrite", "search", "generate"} <= names for names in within)
