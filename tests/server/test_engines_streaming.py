"""Reading a streamed answer: from a real socket, however the bytes are cut."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr

if TYPE_CHECKING:
    from langchain_core.messages import AIMessageChunk

SAID = ["Elternzeit ", "währt “zehn” ", "Wochen 🙂. ", "[1]"]


def events(*more: dict[str, Any]) -> bytes:
    """A stream of `SAID`, then of `more`."""
    chunks = [{"choices": [{"index": 0, "delta": {"content": text}}]} for text in SAID]
    return b"".join(b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n" for chunk in (*chunks, *more))


ENDED = events(
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "model": "small"},
    {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 4, "total_tokens": 11}},
)


def stream(body: bytes, cut: int, said: list[AIMessageChunk] | None = None, **options: Any) -> list[AIMessageChunk]:
    """The messages made of `body`, sent `cut` bytes at a time by a server that then closes; put into `said`."""
    import httpx

    from server.engines.streaming import StreamingChatOpenAI

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for at in range(0, len(body), cut):
            writer.write(body[at : at + cut])
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()

    chunks: list[AIMessageChunk] = [] if said is None else said

    async def ask() -> list[AIMessageChunk]:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server, httpx.AsyncClient() as client:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
            model = StreamingChatOpenAI(
                base_url=url, api_key=SecretStr("none"), model="small", http_async_client=client, max_retries=0
            )
            async for chunk in model.astream("Wie lange?", **options):
                chunks.append(chunk)
        return chunks

    return asyncio.run(ask())


def together(chunks: Sequence[AIMessageChunk]) -> AIMessageChunk:
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    return whole


@pytest.mark.parametrize(
    ("cut", "line_end", "end"), [(1, b"\n", b"data: [DONE]\n\n"), (50, b"\r\n", b""), (10_000, b"\n", b"")]
)
def test_what_comes_out_does_not_depend_on_where_the_bytes_are_cut(cut: int, line_end: bytes, end: bytes) -> None:
    body = (b": still working\n\n" + ENDED + end).replace(b"\n", line_end)
    answer = together(stream(body, cut))
    assert answer.text == "".join(SAID)
    assert answer.response_metadata["finish_reason"] == "stop"
    assert answer.usage_metadata == {"input_tokens": 7, "output_tokens": 4, "total_tokens": 11}


def test_what_arrived_together_is_one_message() -> None:
    texts = [chunk.text for chunk in stream(ENDED + b"data: [DONE]\n\n", 10_000) if chunk.text]
    assert texts == ["".join(SAID)]


def test_an_error_in_the_middle_comes_after_what_was_said() -> None:
    from openai import APIError

    said: list[AIMessageChunk] = []
    with pytest.raises(APIError, match="out of memory"):
        stream(events({"error": {"message": "out of memory", "code": 500}}), 10_000, said)
    assert together(said).text == "".join(SAID)


def test_what_is_no_event_is_an_error() -> None:
    with pytest.raises(ValueError, match="where an object was expected"):
        stream(b"data: [1, 2]\n\n", 100)


def test_a_character_that_json_cuts_in_two_is_whole_again_and_half_a_one_breaks_nothing() -> None:
    halves = ("a \ud83d", "\ude42 \ud83d", " b", "\udc00", "\ud83d")
    cut = [{"choices": [{"delta": {"content": half}}]} for half in halves]
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in cut)
    for size in (10, 10_000):
        assert together(stream(body, size)).text == "a 🙂 \ufffd b\ufffd"


@pytest.mark.parametrize("flood", [b'data: {"choices": [{"delta": {"content": "word "}}]}\n\n', b": still working\n\n"])
def test_a_server_that_does_not_end_is_left(flood: bytes) -> None:
    with pytest.raises(ValueError, match="far more than the tokens"):
        stream(flood * (3_000_000 // len(flood)), 100_000, max_tokens=100)


def test_more_than_text_is_left_to_the_library() -> None:
    chance = {"token": "Wochen", "logprob": -0.5, "bytes": None, "top_logprobs": []}
    more = {"choices": [{"index": 0, "delta": {"content": "!"}, "logprobs": {"content": [chance]}}]}
    answer = together(stream(events(more) + b"data: [DONE]\n\n", 10_000, logprobs=True))
    assert answer.text == "".join(SAID) + "!"
    assert answer.response_metadata["logprobs"]["content"] == [chance]
