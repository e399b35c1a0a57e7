"""The chat model of every engine: LangChain's ChatOpenAI with a quicker way to read a streamed answer.

ChatOpenAI makes a typed object of each event, a dictionary of that object, and a message of the dictionary;
where many answers stream at once that is half of the server's work. Here an event's JSON becomes a message at
once, and what arrived together becomes one message, so that a server that has much to do does less of it for
each token. Requests, retries and errors stay the OpenAI client's, and whatever is more than plain text (tools,
schemas, log probabilities) stays ChatOpenAI's.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

import httpx
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGenerationChunk
from langchain_openai import ChatOpenAI
from openai import APIConnectionError, APIError, APITimeoutError

from server.settings.groups import ServedBy
from text.recorder import current

if TYPE_CHECKING:
    import httpx
    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun


_LINE_BYTES = 1 << 20


_MORE_THAN_TEXT = frozenset(("response_format", "tools", "functions", "logprobs", "n", "audio", "modalities"))


_PARAMETERS = ("model", "temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop", "logprobs")
"""What a trace tells of a request beside its messages."""


class StreamingChatOpenAI(ChatOpenAI):
    """A ChatOpenAI whose `astream` costs little for each token. Time limits are the HTTP client's."""

    served_by: ServedBy = ""

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        payload = self._get_request_payload(messages, stop=stop, stream=True, **kwargs)
        current().label(parameters=json.dumps({name: payload[name] for name in _PARAMETERS if name in payload}))
        if _MORE_THAN_TEXT & payload.keys() or self.output_version == "v1":
            async for chunk in super()._astream(messages, stop, run_manager, **kwargs):
                yield chunk
            return
        body = {**payload, **payload.pop("extra_body", {}), "stream_options": {"include_usage": True}}
        # As further fields, because the client takes a millisecond to check messages that it is handed as such.
        create = self.async_client.with_streaming_response.create
        started = again = False
        while True:
            request = create(model=self.model_name, messages=[], extra_body=body)
            async with request as response, aclosing(_events(response.http_response)) as batches:
                try:
                    async for events in batches:
                        if understood := _understood(events):
                            started = True
                            if run_manager:
                                await run_manager.on_llm_new_token(understood.text, chunk=understood)
                            yield understood
                    return
                except httpx.TimeoutException as error:
                    raise APITimeoutError(cast("Any", response.http_response.request)) from error
                except httpx.TransportError as error:
                    # A server sends its headers before it has read the prompt. One of several that dies then is asked
                    # for again, once: behind their address is another.
                    if started or again:
                        # What ChatOpenAI raises, so that callers need to know one library's errors only.
                        raise APIConnectionError(
                            message=str(error), request=cast("Any", response.http_response.request)
                        ) from error
            again = True


async def _events(response: httpx.Response) -> AsyncGenerator[list[dict[str, Any]], None]:
    """The server-sent events that have arrived since the last time, as JSON. Raises APIError for an error among them.

    Names, comments and blank lines mean nothing here, and no server splits its JSON over lines.
    """
    rest = b""
    async with aclosing(_arrived(response)) as pieces:
        async for piece in pieces:
            *lines, rest = (rest + piece).split(b"\n")
            if len(rest) > _LINE_BYTES:
                raise ValueError("The server streamed a line without an end.")
            if not piece:
                lines.append(rest)
            events, error = [], None
            for line in lines:
                data = line.removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
                if data and data != b"[DONE]":
                    event = json.loads(data)
                    if not isinstance(event, dict):
                        raise ValueError(f"The server streamed {data[:40]!r} where an object was expected.")
                    error = error or event.get("error")
                    events.append(event)
            if events:
                yield events
            if error:
                message = error.get("message") if isinstance(error, dict) else error
                text = str(message or "The answer ended in an error.")
                # The client's own errors name a newer httpx, and hold whichever the request came from.
                raise APIError(text, cast("Any", response.request), body=error)


async def _arrived(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """The body as it arrives, all there is by now at once; an empty piece ends it."""
    parts: list[bytes] = []
    ready = asyncio.Event()

    async def read() -> None:
        try:
            async for part in response.aiter_bytes():
                parts.append(part)
                ready.set()
        finally:
            ready.set()

    reading = asyncio.create_task(read())
    try:
        while True:
            await ready.wait()
            ready.clear()
            ended = reading.done()
            piece = b"".join(parts)
            parts.clear()
            if piece:
                yield piece
            if ended:
                reading.result()
                yield b""
                return
    finally:
        reading.cancel()
        await asyncio.wait({reading})
        if not reading.cancelled():
            # Told already, or of no interest to one who has left.
            reading.exception()


def _understood(events: list[dict[str, Any]]) -> ChatGenerationChunk | None:
    """`_chunk`, or ValueError where the server speaks another protocol."""
    try:
        return _chunk(events)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"The server streamed no chat completion: {str(events)[:80]}") from error


def _chunk(events: list[dict[str, Any]]) -> ChatGenerationChunk | None:
    """Merge events: text, finish reason, token usage. None where they say nothing."""
    text, info, cost = "", dict[str, Any](), None
    for event in events:
        for choice in (event.get("choices") or ())[:1]:
            text += (choice.get("delta") or {}).get("content") or ""
            if reason := choice.get("finish_reason"):
                info = {"finish_reason": reason, "model_name": event.get("model") or ""}
        if usage := event.get("usage"):
            read, written = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
            cost = UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
    if not (text or info or cost):
        return None
    message = AIMessageChunk(content=text, usage_metadata=cost)
    return ChatGenerationChunk(message=message, generation_info=info or None)
