"""Streaming from real HTTP servers: one that misbehaves on command, and a real small model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr

from rewriter import PassThroughRewriter
from server.settings import LLMSettings, Settings
from server.turn.events import DoneEvent, Event, TokenEvent
from server.turn.models import TurnModels
from server.turn.run import TurnEngine, TurnInput
from tests.server.turn_fakes import FakeCollection
from tests.server.turn_playing import check_order

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from server.engines import Engine


@asynccontextmanager
async def opened(url: str, **llm: Any) -> AsyncIterator[TurnEngine]:
    """A turn engine over the model at `url`; its connections end with it."""
    import httpx

    from server.engines.streaming import StreamingChatOpenAI

    async with httpx.AsyncClient() as client:
        model = StreamingChatOpenAI(
            base_url=url,
            api_key=SecretStr("none"),
            model="fake",
            max_retries=0,
            stream_usage=True,
            http_async_client=client,
        )
        yield engine(model, **llm)


def engine(model: BaseChatModel | None, **llm: Any) -> TurnEngine:
    collection = FakeCollection()
    return TurnEngine(
        collection=lambda _: collection,
        models=TurnModels(PassThroughRewriter(), chat_model=model),
        settings=Settings(llm=LLMSettings(**llm)),
    )


def play(url: str, **llm: Any) -> list[Event]:
    async def gather() -> list[Event]:
        async with opened(url, **llm) as turns:
            return [
                event async for event in turns.run(TurnInput(question="How long is parental leave?", collection="docs"))
            ]

    return asyncio.run(gather())


def test_an_answer_over_http(llm: Any) -> None:
    end = play(llm.url)[-1]

    assert isinstance(end, DoneEvent)
    assert end.answer == "Parental leave lasts ten weeks. [1]"
    assert (end.prompt_tokens, end.completion_tokens, end.finish_reason) == (50, 7, "stop")
    assert [message["role"] for message in llm.requests[0]["messages"]] == ["system", "user"]


@pytest.mark.parametrize("how", ["close", "cancel"])
def test_a_reader_that_leaves_is_noticed_by_the_server(llm: Any, how: str) -> None:
    llm.pieces, llm.pace = ["Parental leave lasts ten weeks. "] * 1000, 0.05

    async def read() -> None:
        async with (
            opened(llm.url) as turns,
            aclosing(turns.run(TurnInput(question="How long?", collection="docs"))) as events,
        ):
            async for event in events:
                if isinstance(event, TokenEvent) and how == "close":
                    break
            # The turn's own closing must be enough; the client would close its connections soon after.
            await events.aclose()
            assert await asyncio.to_thread(llm.disconnected.wait, 90)

    async def leave() -> None:
        task = asyncio.create_task(read())
        if how == "cancel":
            await asyncio.to_thread(llm.streaming.wait, 90)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(llm.disconnected.wait, 90)
        else:
            await task

    asyncio.run(leave())


@pytest.mark.extended
@pytest.mark.slow
def test_a_real_small_model_over_its_own_http_server(small_llm: Engine) -> None:
    turns = engine(small_llm.chat_model(), context_tokens=2048, answer_tokens=64)

    async def gather() -> list[Event]:
        return [
            event async for event in turns.run(TurnInput(question="How long is parental leave?", collection="docs"))
        ]

    events = asyncio.run(gather())
    end = events[-1]

    assert isinstance(end, DoneEvent)
    assert end.status in ("answered", "quoted", "refused")
    check_order(events)
    assert any(step == "generate" for step in end.seconds)
    assert {citation.n for citation in end.citations} <= {1, 2}
    assert "cannot_answer" not in end.answer.lower()
