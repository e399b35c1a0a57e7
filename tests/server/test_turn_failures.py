"""What becomes of a turn when a model, an index or a reader fails it."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing
from typing import Any

import pytest

from index.documents import Hit
from index.errors import CollectionNotFound, StorageError
from rewriter import PromptedRewriter
from server.settings import LLMSettings, RetrievalSettings, Settings
from server.turn import events, search
from server.turn.events import Event, EvidenceEvent, TokenEvent
from server.turn.run import TurnInput
from tests.chat_model import FOREVER, ScriptedChatModel
from tests.server.turn_fakes import FakeCollection, Reversing
from tests.server.turn_playing import FOLLOW_UP, done, engine, failed, play
from text.recorder import Recording


@pytest.mark.parametrize(
    ("script", "code", "answer"),
    [
        ([ConnectionError("refused")], "llm_unreachable", ""),
        (["Parental leave ", ConnectionError("reset")], "llm_unreachable", "Parental leave"),
        ([ValueError("model not found")], "llm_failed", ""),
        (["Ten weeks [1]. ", RuntimeError("CUDA")], "llm_failed", "Ten weeks [1]."),
        ([TimeoutError()], "llm_timeout", ""),
    ],
)
def test_a_model_that_fails_ends_the_turn_with_what_was_said(script: list[Any], code: str, answer: str) -> None:
    end = failed(play(engine(script), turn_id="t1"))

    assert (end.code, end.answer, end.turn_id) == (code, answer, "t1")
    assert end.message.startswith("The language model")
    assert "total" in end.seconds


def test_half_a_refusal_token_is_not_shown_when_the_model_dies() -> None:
    assert failed(play(engine(["Ten weeks. <cannot_ans", ConnectionError()]))).answer == "Ten weeks."


def test_a_model_that_says_nothing_is_given_up() -> None:
    settings = Settings(llm=LLMSettings(timeout_seconds=0.1))
    end = failed(play(engine([5.0, "late"], settings=settings)))

    assert (end.code, end.answer) == ("llm_timeout", "")
    assert "llm.timeout_seconds" in end.message


def test_a_model_that_never_ends_is_stopped() -> None:
    settings = Settings(llm=LLMSettings(timeout_seconds=3.0))
    end = failed(play(engine(["Ten weeks ", "and ", FOREVER], settings=settings)))

    assert end.code == "llm_timeout"
    assert end.answer.startswith("Ten weeks and")
    assert "llm.timeout_seconds" in end.message


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CollectionNotFound("There is no collection docs."), "collection_not_found"),
        (StorageError("The disk is full."), "search_failed"),
    ],
)
def test_what_the_index_says_of_a_failure_reaches_the_user(error: Exception, code: str) -> None:
    end = failed(play(engine(["x"], collection=FakeCollection(error=error))))

    assert (end.code, end.message) == (code, str(error))


def test_a_search_that_hangs_ends_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "BLOCKING_SECONDS", 0.1)
    over = threading.Event()
    turns = engine(["x"], collection=FakeCollection(before=lambda: over.wait(40)))

    async def run() -> list[Event]:
        events = [event async for event in turns.run(TurnInput(question="How long?", collection="docs"))]
        over.set()  # or the loop would wait for its thread
        return events

    assert failed(asyncio.run(run())).code == "search_timeout"


def test_a_cross_encoder_that_hangs_leaves_the_list_in_its_own_order(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    over = threading.Event()

    class Hanging(Reversing):
        def rerank(self, *args: Any, **asked: Any) -> list[Hit]:
            over.wait(40)
            return super().rerank(*args, **asked)

    monkeypatch.setattr(search, "READING_SECONDS", 0.05, raising=False)
    settings = Settings(retrieval=RetrievalSettings(profile={"rerank_seconds": 0.05}))
    recording = Recording("turn")
    with recording.root:
        events = play(engine(reranker=Hanging(reads_conversations=True), settings=settings))
    over.set()

    shown = next(event for event in events if isinstance(event, EvidenceEvent))
    assert not shown.reranked
    assert [passage.document_id for passage in shown.passages] == ["d1.md", "d2.md"]
    assert done(events)
    assert "reversing took too long" in caplog.text
    [reading] = [call for call in recording.calls() if call["name"] == "rerank"]
    assert reading["error"] == "rerank_timeout"
    assert "keeps its own order" in reading["message"]


@pytest.mark.parametrize("how", ["close", "cancel"])
def test_a_reader_that_leaves_ends_the_request(how: str) -> None:
    model = ScriptedChatModel(script=["Parental leave ", "lasts ", FOREVER, "ten weeks."])
    turns = engine(model=model)

    async def read() -> None:
        async with aclosing(turns.run(TurnInput(question="How long?", collection="docs"))) as events:
            async for event in events:
                if isinstance(event, TokenEvent) and how == "close":
                    return

    async def leave() -> None:
        task = asyncio.create_task(read())
        if how == "close":
            await task
        else:
            await asyncio.to_thread(model.waiting.wait, 90)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(leave())

    assert model.closed == [True]


def test_a_cancelled_turn_stops_the_rewriters_request() -> None:
    model = ScriptedChatModel(script=[FOREVER, "REWRITE: x?"])
    turns = engine(["x"], rewriter=PromptedRewriter(model))

    async def leave() -> None:
        async def read() -> None:
            async for _ in turns.run(TurnInput(question="and by fax?", collection="docs", conversation=FOLLOW_UP)):
                pass

        task = asyncio.create_task(read())
        await asyncio.to_thread(model.waiting.wait, 90)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    assert model.closed == [True]
