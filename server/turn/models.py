"""The models that work on a turn, the style of answers that suits them, and the stream of one's answer.

Opening models belongs to the chat service. `short` answers suit a small model on a CPU, `full` ones larger and faster
models; each style has its own instructions (`answer_<style>.md`). `ModelStream` passes text on as it comes;
`server.turn.answer` decides what of it is shown.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, cast

from rewriter.prompted import model_errors
from rewriter.protocol import Rewriter
from server.settings import LLMSettings
from server.turn.steps import TurnFailed
from text.recorder import Call

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk, BaseMessage

    from index.rerank import Reranker
    from server.turn.support import PairModel


AnswerStyle: TypeAlias = Literal["short", "full"]

FULL_WINDOW = 8192
"""Tokens of context from which on a model is taken for one that writes full answers well."""
FULL_PACE = 20.0
"""Tokens a second at which a full answer of 300 is there in a quarter of a minute."""

_NEWEST = 0.3


class WritingPace:
    """How fast a model writes, from the answers it wrote; may be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.tokens_per_second = 0.0
        """The newest answers weigh most; 0 before the first."""

    def add(self, tokens: int, seconds: float) -> None:
        """One more answer, timed from its first piece; those of a few tokens tell nothing."""
        if tokens < 10 or seconds <= 0:
            return
        with self._lock:
            before = self.tokens_per_second or tokens / seconds
            self.tokens_per_second = before + _NEWEST * (tokens / seconds - before)


def answer_style(llm: LLMSettings, window: int = 0, pace: WritingPace | None = None) -> AnswerStyle:
    """The style of the next answer.

    `window` is the context that the model's server tells, in tokens; 0 takes the settings'. `auto` is full for a model
    with a large one that writes fast; until an answer was timed, one at an address is believed to.
    """
    if llm.style != "auto":
        return llm.style
    speed = pace.tokens_per_second if pace else 0.0
    fast = speed >= FULL_PACE if speed else llm.remote
    return "full" if fast and max(window, llm.context_tokens) >= FULL_WINDOW else "short"


@dataclass(frozen=True, slots=True)
class TurnModels:
    """Models of one turn; without a `chat_model` sentences are quoted. `name` says what answers, for traces.

    `style` is how it is to answer, and `pace` is told how fast it did. `pairs` reads what it wrote beside
    what it cites.
    """

    rewriter: Rewriter
    reranker: Reranker | None = None
    chat_model: BaseChatModel | None = None
    name: str = "none"
    style: AnswerStyle = "short"
    pace: WritingPace | None = None
    pairs: PairModel | None = None

    async def of_turn(self, answer_tokens: int | None = None, group: str = "") -> TurnModels:
        """The same for every turn."""
        return self

    async def of_search(self, group: str = "") -> TurnModels:
        """The same for every search."""
        return self


class ModelSource(Protocol):
    """Gives what works on a turn, or a search, as it begins: models change under a running server."""

    async def of_turn(self, answer_tokens: int | None = None, group: str = "") -> TurnModels:
        """For an answer of at most `answer_tokens`, or as long as the settings allow. The prompt cache of a model's
        server is separate for each `group`."""

    async def of_search(self, group: str = "") -> TurnModels:
        """For a search alone, which needs no model that answers."""


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a chat request."""

    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class GeneratedText:
    """A piece of the model's text; the last ones carry why it ended and what it cost, if the model tells."""

    text: str
    finish_reason: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def counted(self, piece: GeneratedText) -> GeneratedText:
        """With what one more piece tells of the end and the cost: the newest figures win."""
        return replace(
            self,
            finish_reason=piece.finish_reason or self.finish_reason,
            prompt_tokens=max(piece.prompt_tokens, self.prompt_tokens),
            completion_tokens=max(piece.completion_tokens, self.completion_tokens),
        )


class ModelStream(AsyncIterator[GeneratedText]):
    """The pieces of one answer as they come; the request for it belongs to `step`.

    Reading raises TurnFailed with llm_timeout, llm_unreachable or llm_failed. Closing the stream, or cancelling the
    task that reads it, closes the request to the model at once.
    """

    def __init__(
        self, chat_model: BaseChatModel, messages: Sequence[PromptMessage], *, timeout_seconds: float, step: Call
    ) -> None:
        self._chunks = cast("AsyncGenerator[AIMessageChunk, None]", chat_model.astream(_langchain(messages)))
        self._step = step
        self._began = asyncio.get_running_loop().time()
        self._deadline = self._began + timeout_seconds
        self._cancellations = _cancellations()
        self._spoke = False

    async def aclose(self) -> None:
        """Close the request to the model."""
        await self._chunks.aclose()

    async def __anext__(self) -> GeneratedText:
        try:
            # Around each wait alone: a reader's pauses are not the model's.
            with self._step.current():
                async with asyncio.timeout_at(self._deadline):
                    chunk = await anext(self._chunks, None)
        except _timeouts() as error:
            waited = f"{asyncio.get_running_loop().time() - self._began:.0f} s"
            what = f"was stopped after {waited}, before its end" if self._spoke else f"said nothing for {waited}"
            advice = "Ask for something shorter, try again, or raise llm.timeout_seconds."
            raise TurnFailed("llm_timeout", f"The language model {what}. {advice}") from error
        except _unreachable() as error:
            what = "was lost while it answered" if self._spoke else "cannot be reached"
            advice = "Check that its server runs, then try again."
            raise TurnFailed("llm_unreachable", f"The language model {what} ({_brief(error)}). {advice}") from error
        except model_errors() as error:
            text = f"The language model answered with an error ({_brief(error)}). The log of its server says more."
            raise TurnFailed("llm_failed", text) from error
        # A client that waits with asyncio.wait_for loses a cancellation that meets a chunk (Python 3.11).
        if _cancellations() > self._cancellations:
            raise asyncio.CancelledError
        if chunk is None:
            raise StopAsyncIteration
        self._spoke = self._spoke or bool(chunk.text)
        return _piece(chunk)


def _cancellations() -> int:
    """How often the current task has been asked to stop."""
    task = asyncio.current_task()
    return task.cancelling() if task else 0


def _langchain(messages: Sequence[PromptMessage]) -> list[BaseMessage]:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

    kinds = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}
    return [kinds[message.role](message.text) for message in messages]


def _piece(chunk: AIMessageChunk) -> GeneratedText:
    usage = chunk.usage_metadata
    return GeneratedText(
        text=chunk.text,
        finish_reason=str(chunk.response_metadata.get("finish_reason") or ""),
        prompt_tokens=usage["input_tokens"] if usage else 0,
        completion_tokens=usage["output_tokens"] if usage else 0,
    )


# Evaluated only once something was raised, so that neither library is loaded for a turn that goes well; what these two
# do not name is an error that the model's server told.
def _timeouts() -> tuple[type[Exception], ...]:
    import httpx
    import openai

    return (TimeoutError, openai.APITimeoutError, httpx.TimeoutException)


def _unreachable() -> tuple[type[Exception], ...]:
    import httpx
    import openai

    return (openai.APIConnectionError, httpx.TransportError, ConnectionError)


def _brief(error: Exception) -> str:
    """The error's own first line, short enough for a person to read."""
    line = (str(error).strip().splitlines() or [""])[0][:200]
    return f"{type(error).__name__}: {line}" if line else type(error).__name__
