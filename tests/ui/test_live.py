"""Running turns go on without their reader, end when they are stopped, and leave nothing behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from server.chat import ChatError, StoredTurn
from server.chat.base import LimitReached, QueueFull
from tests.eventually import eventually
from tests.openai_server import FakeOpenAIServer
from tests.serving import Running
from ui.chat import PACE, LiveTurns, Picture, ask
from ui.turns import TurnView

OWNER = "local"
STREAM = "stream-0001"
SENTENCES = [f"Room {n} has {7 * n} chairs. " for n in range(40)]


@pytest.fixture
def live() -> LiveTurns:
    return LiveTurns()


@pytest.fixture
def gate(shared_llm: FakeOpenAIServer) -> Iterator[threading.Event]:
    """Once it is set, an answer of many sentences goes on after its first."""
    gate, usual = threading.Event(), shared_llm.pieces

    def pieces(_: object) -> Iterator[str]:
        yield SENTENCES[0]
        gate.wait(90)
        yield from SENTENCES[1:]

    shared_llm.pieces = pieces
    yield gate
    gate.set()
    shared_llm.pieces = usual


def question(**more: object) -> dict[str, object]:
    return {"stream": STREAM, "question": "How long is parental leave?", "collection": "docs", **more}


def pictures(shared: Running, live: LiveTurns, data: object) -> list[Picture]:
    async def run() -> list[Picture]:
        return [picture async for picture in ask(shared.service, live, OWNER, data)]

    return list(shared.call(run()))


async def begun(shared: Running, live: LiveTurns) -> tuple[Any, str, str]:
    """The stream of a turn that has said its first sentence, its conversation and its id."""
    stream = ask(shared.service, live, OWNER, question())
    while "Room 0" not in (shown := await anext(stream))["html"]:
        pass
    [turn] = (await shared.service.conversations.get(str(shown["conversation"]))).messages
    return stream, str(shown["conversation"]), turn.id


def watching(conversation: str, turn: str, stream: str = "stream-0002") -> dict[str, object]:
    return question(stream=stream, conversation=conversation, watch=turn)


def turns_of(shared: Running, conversation: str | None) -> tuple[StoredTurn, ...]:
    return tuple(shared.call(shared.service.conversations.get(conversation)).messages)


def test_a_question_begins_a_conversation_and_ends_with_one_final_picture(shared: Running, live: LiveTurns) -> None:
    shown = pictures(shared, live, question())
    last = shown[-1]
    assert [picture["final"] for picture in shown] == [False] * (len(shown) - 1) + [True]
    [stored] = turns_of(shared, last["conversation"])
    assert stored.id == last["turn"]
    assert "lasts ten weeks" in last["sources"]
    assert len(live) == 0
    # As it looks when the conversation is opened again.
    again = TurnView.of(stored, traced=True)
    again.key = STREAM
    assert (again.html(), again.sources_html()) == (last["html"], last["sources"])


def test_a_stopped_turn_keeps_what_was_shown(shared: Running, live: LiveTurns, gate: threading.Event) -> None:
    async def run() -> list[Picture]:
        shown: list[Picture] = []
        async for picture in ask(shared.service, live, OWNER, question()):
            shown.append(picture)
            if "Room 0" in picture["html"]:
                assert not live.stop("somebody else", STREAM)
                assert not live.stop(OWNER, "stream-0002")
                live.stop(OWNER, STREAM)
        return shown

    last = shared.call(run())[-1]
    assert "Stopped before the end." in last["html"]
    assert "Room 0" in last["html"]
    assert [turn.id for turn in turns_of(shared, last["conversation"])] == [last["turn"]]
    eventually(lambda: [turn.status for turn in turns_of(shared, last["conversation"])] == ["interrupted"])


@pytest.mark.parametrize("held", [True, False])
def test_a_turn_goes_on_without_its_reader_and_is_watched_by_the_next(
    shared: Running, live: LiveTurns, gate: threading.Event, held: bool
) -> None:
    async def run() -> list[Picture]:
        stream, conversation, turn = await begun(shared, live)
        if not held:
            await stream.aclose()
        assert len(live) == 1
        assert live.find("somebody else", turn, "stream-0003") is None
        shown = []
        async for picture in ask(shared.service, live, OWNER, watching(conversation, turn)):
            shown.append(picture)
            gate.set()
        if held:
            assert [picture async for picture in stream][-1]["final"]
        return shown

    shown = shared.call(run())
    assert {picture["stream"] for picture in shown} == {"stream-0002"}
    assert [picture["final"] for picture in shown].index(True) == len(shown) - 1 > 0
    assert shown[-1]["html"].count("chairs") == 40
    assert len(live) == 0


def test_a_watched_turn_can_be_stopped_by_the_name_that_its_page_gave_it(
    shared: Running, live: LiveTurns, gate: threading.Event
) -> None:
    async def run() -> list[Picture]:
        _, conversation, turn = await begun(shared, live)
        shown = []
        async for picture in ask(shared.service, live, OWNER, watching(conversation, turn)):
            shown.append(picture)
            if len(shown) == 1:
                assert live.stop(OWNER, "stream-0002")
        return shown

    assert "Stopped before the end." in shared.call(run())[-1]["html"]


@pytest.mark.parametrize(
    ("place", "error", "said"),
    [
        ("turns.begin", QueueFull("Too many are waiting.", retry_after=7), "Too many are waiting. Try again in 7 s."),
        ("turns.begin", ChatError("The collection is gone. Choose another."), "is gone. Choose another."),
        ("turns.begin", RuntimeError("/secret/path"), "Something went wrong on the server"),
        ("admin.admit", LimitReached("20 are allowed.", retry_after=12), "20 are allowed. Try again in 12 s."),
    ],
)
def test_a_refused_question_says_why_and_leaves_no_empty_conversation(
    shared: Running, live: LiveTurns, monkeypatch: pytest.MonkeyPatch, place: str, error: Exception, said: str
) -> None:
    async def refuse(*_: object) -> None:
        raise error

    service, _, method = place.partition(".")
    monkeypatch.setattr(getattr(shared.service, service), method, refuse)
    before = shared.call(shared.service.conversations.listing(None, limit=200))
    last = pictures(shared, live, question())[-1]
    assert said in last["html"]
    assert "/secret/path" not in last["html"]
    assert (last["final"], last["kept"]) == (True, False)
    assert shared.call(shared.service.conversations.listing(None, limit=200)) == before


def test_a_malformed_question_is_dropped(shared: Running, live: LiveTurns) -> None:
    for data in (None, {}, {"stream": "x", "question": "y"}, {"stream": "<script>" * 2, "question": "y"}):
        assert pictures(shared, live, data) == []


def test_a_stream_name_in_use_is_refused(shared: Running, live: LiveTurns, gate: threading.Event) -> None:
    async def run() -> Picture:
        stream, _, _ = await begun(shared, live)
        shown = [picture async for picture in ask(shared.service, live, OWNER, question())]
        live.stop(OWNER, STREAM)
        await stream.aclose()
        return shown[-1]

    assert "being answered already" in shared.call(run())["html"]


def test_many_tokens_make_few_pictures(
    shared: Running, live: LiveTurns, shared_llm: FakeOpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "".join(SENTENCES).split(" ")
    monkeypatch.setattr(shared_llm, "pieces", [f"{word} " for word in words])
    monkeypatch.setattr(shared_llm, "pace", 0.005)
    began = time.monotonic()
    shown = pictures(shared, live, question())
    # On a busy machine the tokens take longer, and pictures are told by time.
    assert len(shown) < max(len(words) / 3, 3 + (time.monotonic() - began) / PACE)
    assert shown[-1]["html"].count("chairs") == 40


def test_nobody_takes_the_streams_of_all_by_watching(
    shared: Running, live: LiveTurns, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ui.chat.WATCHED", 2)

    async def run() -> list[str]:
        first, conversation, turn = await begun(shared, live)
        watches = [watching(conversation, turn, f"stream-100{n}") for n in range(4)]
        streams = [ask(shared.service, live, OWNER, watch) for watch in watches]
        texts = [(await anext(stream))["html"] for stream in streams[:3]]
        for stream in streams[:3]:
            await stream.aclose()
        texts.append((await anext(streams[3]))["html"])
        for stream in (streams[3], first):
            await stream.aclose()
        live.stop(OWNER, STREAM)
        return texts

    refused = ["Too many tabs" in text for text in shared.call(run())]
    assert refused == [False, False, True, False]
