"""Running turns end with their reader, and nothing of them is left behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from server.chat import ChatError, ChatService
from server.chat.error_mapping import LimitReached, QueueFull
from tests.ui.fake_service import Answer, FakeService, Text
from ui.chat import PACE, LiveTurns, Picture, ask

TAB = "local", "tab"
STREAM = "stream-0001"


@pytest.fixture
def service() -> FakeService:
    words = "One two three four five six. " * 40
    script = {"long": Answer(words, pause=0.005), "short": Answer("It is so [1].")}
    return FakeService([Text("a.md", "A", [((), "It is so. And more.")])], script)


def question(text: str, **more: object) -> dict[str, object]:
    return {"stream": STREAM, "question": text, "collection": "docs", **more}


async def pictures(service: ChatService, live: LiveTurns, data: object) -> list[Picture]:
    return [picture async for picture in ask(service, live, TAB, data)]


def test_a_question_begins_a_conversation_and_ends_with_one_final_picture(service: FakeService) -> None:
    live = LiveTurns()
    shown = asyncio.run(pictures(service, live, question("short?")))
    assert [picture["final"] for picture in shown[:-1]] == [False] * (len(shown) - 1)
    assert shown[-1]["final"]
    assert shown[-1]["turn"] in shown[-1]["html"]
    assert shown[-1]["conversation"] in service.store
    assert "It is so" in shown[-1]["sources"]
    assert len(live) == 0


@pytest.mark.parametrize("leave", [lambda live: live.stop("local", STREAM), lambda live: live.disconnect(TAB)])
def test_a_stopped_turn_keeps_what_was_shown(service: FakeService, leave: Callable[[LiveTurns], None]) -> None:
    live = LiveTurns()

    async def run() -> list[Picture]:
        shown: list[Picture] = []
        async for picture in ask(service, live, TAB, question("long?")):
            shown.append(picture)
            if "One two" in picture["html"]:
                leave(live)
        return shown

    shown = asyncio.run(run())
    assert "Stopped before the end." in shown[-1]["html"]
    assert "One two" in shown[-1]["html"]
    assert service.cancelled == 1
    [(_, turns)] = service.store.values()
    assert [turn.status for turn in turns] == ["interrupted"]
    assert shown[-1]["turn"] == turns[0].id


def test_another_tab_leaving_changes_nothing(service: FakeService) -> None:
    live = LiveTurns()

    async def run() -> Picture | None:
        last = None
        async for picture in ask(service, live, TAB, question("short?")):
            live.disconnect(("local", "other"))
            live.disconnect(("somebody else", "tab"))
            assert not live.stop("somebody else", STREAM)
            assert not live.stop("local", "stream-0002")
            last = picture
        return last

    last = asyncio.run(run())
    assert last is not None
    assert 'data-state="answered"' in last["html"]


def test_a_reader_that_goes_away_ends_the_turn(service: FakeService) -> None:
    live = LiveTurns()

    async def run() -> None:
        answer = ask(service, live, TAB, question("long?"))
        async for picture in answer:
            if "One two" in picture["html"]:
                break
        await answer.aclose()  # type: ignore[attr-defined]

    asyncio.run(run())
    assert service.cancelled == 1
    assert len(live) == 0


def test_a_turn_that_nobody_reads_any_more_is_stopped_by_its_tab_closing(service: FakeService) -> None:
    live = LiveTurns()

    async def run() -> None:
        answer = ask(service, live, TAB, question("long?"))
        async for picture in answer:
            if "One two" in picture["html"]:
                break
        live.disconnect(TAB)
        while len(live):  # `answer` is held and not asked for more
            await asyncio.sleep(0.01)
        assert service.cancelled == 1

    asyncio.run(run())


def test_a_cancelled_reader_ends_the_turn(service: FakeService) -> None:
    live = LiveTurns()

    async def run() -> None:
        reading = asyncio.create_task(pictures(service, live, question("long?")))
        await asyncio.sleep(0.3)
        assert len(live) == 1
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    asyncio.run(run())
    assert service.cancelled == 1
    assert len(live) == 0


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
        async for picture in ask(service, live, TAB, question("long?")):
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
