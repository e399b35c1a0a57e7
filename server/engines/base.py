"""What an engine is, and how any of them becomes a LangChain chat model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeAlias, cast

import httpx
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGenerationChunk
from langchain_openai import ChatOpenAI
from openai import APIConnectionError, APIError, APITimeoutError

from server.settings import LLMSettings
from text.recorder import current, trace_headers

if TYPE_CHECKING:
    import httpx
    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
    from langchain_core.language_models import BaseChatModel


class EngineError(Exception):
    """Base of every error of an engine; the message says what happened and what to do."""


class EngineFailed(EngineError):
    """The local engine could not start, or kept dying."""


class EngineUnreachable(EngineError):
    """The server at the URL does not answer, or refuses."""


ServedBy: TypeAlias = Literal["", "vllm", "llamacpp"]
"""The program behind a chat model, where that is known: some understand more than OpenAI's protocol."""


class Engine(Protocol):
    """Something that writes answers, or nothing at all.

    `start` blocks until the engine can answer (a local model loads for seconds) and raises EngineError
    when it cannot; `stop` ends it, and may be called twice. All methods may be called from any thread. One that
    inherits from this may leave out those three with which it has nothing to do.
    """

    @property
    def name(self) -> str:
        """What answers, for traces and people, such as `local:qwen2.5-coder-1.5b-instruct`."""

    def start(self) -> None:
        """Make the engine ready; blocks until it is."""
        return

    def stop(self) -> None:
        """End what `start` began."""
        return

    async def aclose(self) -> None:
        """Close the connections that belong to the event loop in which the chat model was asked; before `stop`."""
        return

    def healthy(self) -> bool:
        """Whether a request would be answered now; blocks for two seconds at most."""

    def chat_model(self) -> BaseChatModel | None:
        """The model to talk to, None where answers are quoted without one. Cheap to call for every turn."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _trace(request: httpx.Request) -> None:
    request.headers.update(trace_headers())


async def _atrace(request: httpx.Request) -> None:
    _trace(request)


TRACED = {"request": [_trace]}
ATRACED = {"request": [_atrace]}
"""Event hooks of a client that tell the model's server which call a request belongs to (W3C `traceparent`)."""


def openai_chat_model(
    settings: LLMSettings,
    base_url: str,
    model: str,
    clients: tuple[httpx.Client, httpx.AsyncClient],
    *,
    retries: int,
    cache_salt: str = "",
    served_by: ServedBy = "",
) -> BaseChatModel:
    """A ChatOpenAI as the settings want it: streaming with token counts, with limits, over the given clients.

    The key is the one of the settings: `OPENAI_API_KEY` of the environment is not sent to whoever is configured.
    """
    from pydantic import SecretStr

    key = settings.api_key.get_secret_value()
    return StreamingChatOpenAI(
        base_url=base_url,
        model=model,
        api_key=SecretStr(key or "none"),
        http_client=clients[0],
        http_async_client=clients[1],
        streaming=True,
        stream_usage=True,
        temperature=settings.temperature,
        max_completion_tokens=settings.longest_answer("short" if settings.style == "short" else "full"),
        timeout=request_timeout(settings),
        stream_chunk_timeout=settings.first_token_seconds,
        max_retries=retries,
        extra_body={"cache_salt": cache_salt} if cache_salt else None,
        use_responses_api=False,
        served_by=served_by,
    )


def request_timeout(settings: LLMSettings) -> httpx.Timeout:
    """Limits of one request; `read` bounds the wait for the first and between any two pieces of an answer."""
    import httpx

    return httpx.Timeout(10.0, read=settings.first_token_seconds)


class NoEngine(Engine):
    """Always healthy; has no chat model."""

    @property
    def name(self) -> str:
        return "none"

    def healthy(self) -> bool:
        return True

    def chat_model(self) -> None:
        return None


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
        told = again = False
        while True:
            request = create(model=self.model_name, messages=[], extra_body=body)
            async with request as response, aclosing(_events(response.http_response)) as batches:
                try:
                    async for events in batches:
                        if said := _understood(events):
                            told = True
                            if run_manager:
                                await run_manager.on_llm_new_token(said.text, chunk=said)
                            yield said
                    return
                except httpx.TimeoutException as error:
                    raise APITimeoutError(cast("Any", response.http_response.request)) from error
                except httpx.TransportError as error:
                    # A server sends its headers before it has read the prompt. One of several that dies then is asked
                    # for again, once: behind their address is another.
                    if told or again:
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
    """What the events say together: text, why the answer ended, what it cost. None where they say nothing."""
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
