"""Streaming an answer from a chat model: time limits, errors a person can act on, cancellation.

The text is passed on as it comes; what may be shown of it is decided in `server.turn.answer`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from rewriter.prompted import model_errors
from server.turn.prompt import PromptMessage
from text.recorder import Call

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk, BaseMessage


class GenerationError(Exception):
    """The model gave no complete answer. `code` is llm_unreachable, llm_timeout or llm_failed."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


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


async def generate(
    chat_model: BaseChatModel,
    messages: Sequence[PromptMessage],
    *,
    timeout_seconds: float,
    step: Call,
) -> AsyncGenerator[GeneratedText, None]:
    """The pieces of one answer as they come; the request for it belongs to `step`.

    Raises GenerationError. Closing the iterator, or cancelling the task that reads it, closes the request
    to the model at once.
    """
    started = time.monotonic()
    spoke = False
    before = _cancellations()
    try:
        stream = cast("AsyncGenerator[AIMessageChunk, None]", chat_model.astream(_langchain(messages)))
        async with aclosing(stream) as chunks:
            while True:
                # Around each wait, never around a yield: a reader's pauses are not the model's.
                until = asyncio.get_running_loop().time() + timeout_seconds - time.monotonic() + started
                with step.current():
                    async with asyncio.timeout_at(until):
                        chunk = await anext(chunks, None)
                # A client that waits with asyncio.wait_for loses a cancellation that meets a chunk (Python 3.11).
                if _cancellations() > before:
                    raise asyncio.CancelledError
                if chunk is None:
                    return
                spoke = spoke or bool(chunk.text)
                yield _piece(chunk)
    except _timeouts() as error:
        waited = f"{time.monotonic() - started:.0f} s"
        what = f"was stopped after {waited}, before its end" if spoke else f"said nothing for {waited}"
        raise GenerationError(
            "llm_timeout",
            f"The language model {what}. Ask for something shorter, try again, or raise llm.timeout_seconds.",
        ) from error
    except _unreachable() as error:
        what = "was lost while it answered" if spoke else "cannot be reached"
        raise GenerationError(
            "llm_unreachable",
            f"The language model {what} ({_brief(error)}). Check that its server runs, then try again.",
        ) from error
    except model_errors() as error:
        raise GenerationError(
            "llm_failed",
            f"The language model answered with an error ({_brief(error)}). The log of its server says more.",
        ) from error


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
