"""Contract of an engine, and its adapter to a LangChain chat model."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import httpx

from server.settings import LLMSettings, ServedBy
from text.recorder import trace_headers

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


class EngineError(Exception):
    """Base of every error of an engine; the message says what happened and what to do."""


class EngineFailed(EngineError):
    """The local engine could not start, or kept dying."""


class EngineUnreachable(EngineError):
    """The server at the URL does not answer, or refuses."""


@dataclass(frozen=True, slots=True)
class EngineJob:
    """The GGUF file, the socket's path, tokens of context per request, requests at once, threads."""

    model: str
    socket: str
    context_tokens: int
    parallel: int
    threads: int


class Engine(Protocol):
    """Something that writes answers, or nothing at all.

    `start` blocks until the engine can answer (a local model loads for seconds) and raises EngineError
    when it cannot; `stop` ends it, and may be called twice. All methods may be called from any thread. One that
    inherits from this may leave out those three with which it has nothing to do.
    """

    @property
    def name(self) -> str:
        """The engine's name in traces and pages, such as `local:qwen2.5-coder-1.5b-instruct`."""

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

    from server.engines.streaming import StreamingChatOpenAI

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
        stream_chunk_timeout=settings.timeout_seconds,
        max_retries=retries,
        extra_body={"cache_salt": cache_salt} if cache_salt else None,
        use_responses_api=False,
        served_by=served_by,
    )


def request_timeout(settings: LLMSettings) -> httpx.Timeout:
    """Limits of one request; `read` bounds the wait for the first and between any two pieces of an answer."""
    return httpx.Timeout(10.0, read=settings.timeout_seconds)


class NoEngine(Engine):
    """Always healthy; has no chat model."""

    @property
    def name(self) -> str:
        return "none"

    def healthy(self) -> bool:
        return True

    def chat_model(self) -> None:
        return None
