"""The chat model of every engine: LangChain's ChatOpenAI with a quicker way to read a streamed answer.

ChatOpenAI makes a typed object of each event, a dictionary of that object, and a message of the dictionary: half of a
busy server's work. Here an event's JSON becomes a message at once, and what arrived together becomes one message.
Requests, retries and errors stay the OpenAI client's, and whatever is more than plain text (tools, schemas, log
probabilities) stays ChatOpenAI's.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Self, cast

import httpx
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGenerationChunk
from langchain_openai import ChatOpenAI
from openai import APIConnectionError, APIError, APITimeoutError

from server.settings import ServedBy
from text.recorder import current
from text.sanitize import sanitize_text

if TYPE_CHECKING:
    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun


_LINE_BYTES = 1 << 20
_TOKEN_BYTES = 1 << 10
"""Most bytes of a stream for each token that was asked for, beside `_LINE_BYTES`: an event of one token has 300."""
_USUAL_TOKENS = 8192
"""What bounds a stream where no number of tokens was asked for."""
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
        extra = payload.pop("extra_body", None) or {}
        body = {**payload, **extra, "stream_options": {"include_usage": True}}
        # As further fields, because the client takes a millisecond to check messages that it is handed as such.
        create = self.async_client.with_streaming_response.create
        tokens = payload.get("max_completion_tokens") or payload.get("max_tokens") or _USUAL_TOKENS
        started, again, half = False, False, ""
        while True:
            request = create(model=self.model_name, messages=[], extra_body=body)
            async with request as response, _EventReader(response.http_response, tokens) as reader:
                try:
                    while (events := await reader.read()) is not None:
                        merged, half = _chunk(events, half)
                        if merged:
                            started = True
                            if run_manager:
                                await run_manager.on_llm_new_token(merged.text, chunk=merged)
                            yield merged
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


class _EventReader:
    """Read the server-sent events of a response of so many tokens, all that have arrived by now at once."""

    def __init__(self, response: httpx.Response, tokens: int = _USUAL_TOKENS) -> None:
        self._response = response
        self._left = _LINE_BYTES + tokens * _TOKEN_BYTES
        self._parts: list[bytes] = []
        self._arrived = asyncio.Event()
        self._rest = b""
        self._problem: APIError | None = None

    async def __aenter__(self) -> Self:
        self._reading = asyncio.create_task(self._collect())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._reading.cancel()
        await asyncio.wait({self._reading})
        if not self._reading.cancelled():
            # Told already, or of no interest to one who has left.
            self._reading.exception()

    async def _collect(self) -> None:
        try:
            async for part in self._response.aiter_bytes():
                self._left -= len(part)
                if self._left < 0:
                    raise ValueError("The server streamed far more than the tokens that it was asked for.")
                self._parts.append(part)
                self._arrived.set()
        finally:
            self._arrived.set()

    async def read(self) -> list[dict[str, Any]] | None:
        """Return the events since the last time as JSON, or None at the end. Raises APIError for an error among them.

        Names, comments and blank lines mean nothing here, and no server splits its JSON over lines.
        """
        if self._problem:
            raise self._problem
        await self._arrived.wait()
        self._arrived.clear()
        piece = b"".join(self._parts)
        self._parts.clear()
        if self._reading.done():
            self._arrived.set()
            if not piece:
                self._reading.result()
                if not self._rest:
                    return None
                piece = b"\n"
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > _LINE_BYTES:
            raise ValueError("The server streamed a line without an end.")
        events = [event for line in lines if (event := _event(line)) is not None]
        if error := next((event["error"] for event in events if event.get("error")), None):
            message = error.get("message") if isinstance(error, dict) else error
            text = sanitize_text(str(message or "The answer ended in an error."))
            # The client's own errors name a newer httpx, and hold whichever the request came from.
            self._problem = APIError(text, cast("Any", self._response.request), body=error)
        return events


def _event(line: bytes) -> dict[str, Any] | None:
    data = line.removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
    if not data or data == b"[DONE]":
        return None
    event = json.loads(data)
    if not isinstance(event, dict):
        raise ValueError(f"The server streamed {data[:40]!r} where an object was expected.")
    return event


def _chunk(events: list[dict[str, Any]], half: str = "") -> tuple[ChatGenerationChunk | None, str]:
    """Merge events: text, finish reason, token usage. None where they say nothing. Raises ValueError for others.

    JSON writes a character beyond U+FFFF as two escapes, and some servers cut between them: `half` is the first of them
    from the events before, and the second value the one to be added to the next. One that stays alone becomes U+FFFD.
    """
    text, info, cost = half, dict[str, Any](), None
    try:
        for event in events:
            for choice in (event.get("choices") or ())[:1]:
                text += (choice.get("delta") or {}).get("content") or ""
                if reason := choice.get("finish_reason"):
                    info = {"finish_reason": reason, "model_name": event.get("model") or ""}
            if usage := event.get("usage"):
                read, written = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
                cost = UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"The server streamed no chat completion: {str(events)[:80]}") from error
    half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" and not info else ""
    text = text.removesuffix(half).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if not (text or info or cost):
        return None, half
    message = AIMessageChunk(content=text, usage_metadata=cost)
    return ChatGenerationChunk(message=message, generation_info=info or None), half
