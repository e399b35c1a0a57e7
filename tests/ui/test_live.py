"""Running turns go on without their reader, end when they are stopped, and leave nothing behind."""

from __future__ import annotations

import asyncio
import time

import pytest

from server.chat import ChatError, ChatService
from server.chat.error_mapping import LimitReached, QueueFull
from tests.ui.fake_service import Answer, FakeService, Text
from ui.chat import PACE, LiveTurns, Picture, ask

OWNER = "local"
STREAM = "stream-0001"


@pytest.fixture
def service() -> FakeService:
    words = "One two three four five six. " * 40
    script = {"long": Answer(words, pause=0.005), "short": Answer("It is so [1].")}
    return FakeService([Text("a.md", "A", [((), "It is so. And more.")])], script)


def question(text: str, **more: object) -> dict[str, object]:
    return {"stream": STREAM, "question": text, "collection": "docs", **more}


async def pictures(service: ChatService, live: LiveTurns, data: object) -> list[Picture]:
    return [picture async for picture in ask(service, live, OWNER, data)]


def test_a_question_begins_a_conversation_and_ends_with_one_final_picture(service: FakeService) -> None:
    live = LiveTurns()
    shown = asyncio.run(pictures(service, live, question("short?")))
    assert [picture["final"] for picture in shown[:-1]] == [False] * (len(shown) - 1)
    assert shown[-1]["final"]
    assert shown[-1]["turn"] in shown[-1]["html"]
    assert shown[-1]["conversation"] in service.store
    assert "It is so" in shown[-1]["sources"]
    assert len(live) == 0


def test_a_stopped_turn_keeps_what_was_shown(service: FakeService) -> None:
    live = LiveTurns()

    async def run() -> list[Picture]:
        shown: list[Picture] = []
        async for picture in ask(service, live, OWNER, question("long?")):
            shown.append(picture)
            if "One two" in picture["html"]:
                live.stop(OWNER, STREAM)
        return shown

    shown = asyncio.run(run())
    assert "Stopped before the end." in shown[-1]["html"]
    assert "One two" in shown[-1]["html"]
    assert service.cancelled == 1
    [(_, turns)] = service.store.values()
    assert [turn.status for turn in turns] == ["interrupted"]
    assert shown[-1]["turn"] == turns[0].id


def test_nobody_else_stops_or_finds_a_turn(service: FakeService) -> None:
    live = LiveTurns()

    async def run() -> Picture | None:
        last = None
        async for picture in ask(service, live, OWNER, question("short?")):
            assert not live.stop("somebody else", STREAM)
            assert not live.stop(OWNER, "stream-0002")
            assert live.find("somebody else", "turn-2", "stream-0003") is None
            last = picture
        return last

    last = asyncio.run(run())
    assert last is not None
    assert 'data-state="answered"' in last["html"]


@pytest.mark.parametrize("how", ["closed", "cancelled", "held"])
def test_a_turn_goes_on_without_its_reader_and_is_watched_by_the_next(service: FakeService, how: str) -> None:
    live = LiveTurns()

    async def begin(begun: asyncio.Event) -> None:
        async for picture in ask(service, live, OWNER, question("long?")):
            if "One two" in picture["html"]:
                begun.set()
                if how != "held":
                    await asyncio.Event().wait()

    async def run() -> list[Picture]:
        begun = asyncio.Event()
        reading = asyncio.create_task(begin(begun))
        await begun.wait()
        if how != "held":
            reading.cancel()
            await asyncio.wait({reading})
        assert (len(live), service.cancelled) == (1, 0)
        [conversation] = service.store
        again = question("long?", stream="stream-0002", conversation=conversation, watch="turn-2")
        shown = await pictures(service, live, again)
        await asyncio.wait({reading})
        return shown

    shown = asyncio.run(run())
    assert len(service.requests) == 1
    assert {picture["stream"] for picture in shown} == {"stream-0002"}
    assert [picture["final"] for picture in shown].index(True) == len(shown) - 1 > 0
    assert shown[-1]["html"].count("One two") == 40
    assert (len(live), service.cancelled) == (0, 0)


def test_a_watched_turn_can_be_stopped_by_the_name_that_its_page_gave_it(service: FakeService) -> None:
    live = LiveTurns()

    async def run() -> list[Picture]:
        async for picture in ask(service, live, OWNER, question("long?")):
            if "One two" in picture["html"]:
                break
        [conversation] = service.store
        shown = []
        watch = question("long?", stream="stream-0002", conversation=conversation, watch="turn-2")
        async for picture in ask(service, live, OWNER, watch):
            shown.append(picture)
            if len(shown) == 1:
                assert live.stop(OWNER, "stream-0002")
        return shown

    assert "Stopped before the end." in asyncio.run(run())[-1]["html"]
    assert service.cancelled == 1


def test_a_refused_question_says_when_to_try_again_and_leaves_no_empty_conversation(service: FakeService) -> None:
    service.refuse_with = QueueFull("Too many questions are waiting.", retry_after=7)
    shown = asyncio.run(pictures(service, LiveTurns(), question("short?")))
    assert "Too many questions are waiting. Try again in 7 s." in shown[-1]["html"]
    assert shown[-1]["kept"] is False
    assert service.store == {}


def test_a_question_too_soon_is_refused_before_anything_is_made_of_it(service: FakeService) -> None:
    service.limit_with = LimitReached("20 requests a minute are allowed.", retry_after=12)
    shown = asyncio.run(pictures(service, LiveTurns(), question("short?")))
    assert "20 requests a minute are allowed. Try again in 12 s." in shown[-1]["html"]
    assert (shown[-1]["final"], shown[-1]["kept"]) == (True, False)
    assert service.store == {}
    assert service.requests == []


def test_an_unexpected_failure_is_told_and_not_explained(
    service: FakeService, caplog: pytest.LogCaptureFixture
) -> None:
    service.refuse_with = RuntimeError("/secret/path")  # type: ignore[assignment]
    shown = asyncio.run(pictures(service, LiveTurns(), question("short?")))
    assert shown[-1]["final"]
    assert "Something went wrong on the server" in shown[-1]["html"]
    assert "/secret/path" not in shown[-1]["html"]
    assert "/secret/path" in caplog.text


def test_a_malformed_question_is_dropped(service: FakeService) -> None:
    for data in (None, {}, {"stream": "x", "question": "y"}, {"stream": "<script>" * 2, "question": "y"}):
        assert asyncio.run(pictures(service, LiveTurns(), data)) == []
    assert service.requests == []


def test_search_words_and_the_replaced_turn_reach_the_service(service: FakeService) -> None:
    live = LiveTurns()
    first = asyncio.run(pictures(service, live, question("short?")))[-1]
    again = question("short?", conversation=first["conversation"], instead_of=first["turn"], search_for="other words")
    shown = asyncio.run(pictures(service, live, again))[-1]
    assert service.requests[-1].regenerate_of == first["turn"]
    assert service.requests[-1].search_for == "other words"
    assert "other words" in shown["html"]
    assert "your words" in shown["html"]


def test_a_stream_name_in_use_is_refused(service: FakeService) -> None:
    live = LiveTurns()

    async def run() -> list[Picture]:
        async for picture in ask(service, live, OWNER, question("long?")):
            if "One two" in picture["html"]:
                return await pictures(service, live, question("short?"))
        return []

    assert "being answered already" in asyncio.run(run())[-1]["html"]


def test_many_tokens_make_few_pictures(service: FakeService) -> None:
    began = time.monotonic()
    shown = asyncio.run(pictures(service, LiveTurns(), question("long?")))
    # On a busy machine the tokens take longer, and pictures are told by time.
    assert len(shown) < max(240 / 3, 3 + (time.monotonic() - began) / PACE)
    assert len(shown) < 240
    assert shown[-1]["html"].count("One two") == 40


def test_errors_of_the_service_carry_their_message(service: FakeService) -> None:
    service.refuse_with = ChatError("The collection is gone. Choose another.")
    shown = asyncio.run(pictures(service, LiveTurns(), question("short?")))
    assert "The collection is gone. Choose another." in shown[-1]["html"]


def test_nobody_takes_the_streams_of_all_by_watching(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.chat.WATCHED", 2)
    live = LiveTurns()

    async def run() -> list[str]:
        begun = ask(service, live, OWNER, question("long?"))
        while (shown := await anext(begun))["turn"] is None:
            pass
        watch = question("long?", conversation=shown["conversation"], watch=shown["turn"])
        streams = [ask(service, live, OWNER, {**watch, "stream": f"stream-100{n}"}) for n in range(3)]
        texts = [(await anext(stream))["html"] for stream in streams]
        for stream in streams:
            await stream.aclose()
        texts.append((await anext(ask(service, live, OWNER, {**watch, "stream": "stream-2000"})))["html"])
        await begun.aclose()
        live.stop(OWNER, STREAM)
        return texts

    refused = ["Too many tabs" in text for text in asyncio.run(run())]
    assert refused == [False, False, True, False]
