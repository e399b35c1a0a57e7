"""A rewriter that asks a language model, with its output guarded.

The model says `KEEP`, or `REWRITE:` and one line. The answer is read as it streams and the request closed as soon as
the line is complete, too long or out of time. `rewriter.guard` judges the line; the prompt is in `prompts/rewrite.md`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, cast

import regex

from rewriter import guard
from rewriter.protocol import Conversation, Rewrite
from text.prompts import fill, load_prompt
from text.recorder import current
from text.sanitize import escape
from text.words import words

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk, BaseMessage

PACKAGE = "rewriter.prompts"
QUESTION_CHARS = 1200
USER_CHARS = 300
ASSISTANT_CHARS = 400
"""Longest texts shown to the model; longer ones keep their beginning."""

_LABEL = regex.compile(
    r"^(?:\W*(?:rewrite|rewritten|last|new|stand-?alone)?\W*(?:question|query|output|answer)?\s*:\s*|\W*rewrite\b\W*)",
    regex.IGNORECASE,
)
_KEEP = regex.compile(r"^\W*keep\W*(?:$|[\n:.])", regex.IGNORECASE)
_QUOTES = "\"'`“”‘’«»* "


class PromptedRewriter:
    """Asks `chat_model` whether a question needs its conversation, and for the question in full if so.

    `timeout_seconds` bounds the whole of it; `history_messages` is how many messages the model sees, newest kept, and
    `assistant_chars` how much of each answer. Without a conversation the model is not asked.
    """

    def __init__(
        self,
        chat_model: BaseChatModel,
        timeout_seconds: float = 8.0,
        history_messages: int = 6,
        assistant_chars: int = ASSISTANT_CHARS,
    ) -> None:
        self._model = chat_model
        self._timeout = timeout_seconds
        self._history_messages = history_messages
        self._assistant_chars = assistant_chars

    @property
    def name(self) -> str:
        return "prompted"

    @property
    def version(self) -> str:
        """Changes whenever a prompt does."""
        return f"{load_prompt(PACKAGE, 'rewrite').version}.{load_prompt(PACKAGE, 'conversation').version}"

    def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
        """Decide and resolve, blocking; never raises."""
        if not conversation or not self._history_messages:
            return Rewrite(question, "keep", confidence=1.0)
        started = time.perf_counter()
        call = _Call(self._model, self._messages(conversation, question), question)
        call.start()
        call.join(self._timeout)
        if call.is_alive():
            call.late.set()
            return self._failed(question, self._too_long(), started)
        if call.error is not None:
            return self._failed(question, _unasked(call.error), started)
        return self._read(conversation, question, call.said, started)

    async def arewrite(self, conversation: Conversation, question: str) -> Rewrite:
        """As `rewrite`; cancelling it closes the request to the model."""
        if not conversation or not self._history_messages:
            return Rewrite(question, "keep", confidence=1.0)
        started = time.perf_counter()
        reply = ""
        before = _cancellations()
        try:
            async with asyncio.timeout(self._timeout):
                stream = cast(
                    "AsyncGenerator[AIMessageChunk, None]", self._model.astream(self._messages(conversation, question))
                )
                async with aclosing(stream) as chunks:
                    async for chunk in chunks:
                        reply += chunk.text
                        # A client that waits with asyncio.wait_for may lose a cancellation (Python 3.11).
                        if _cancellations() > before:
                            raise asyncio.CancelledError
                        if _complete(reply, question):
                            break
        except TimeoutError:
            return self._failed(question, self._too_long(), started)
        except model_errors() as error:
            return self._failed(question, _unasked(error), started)
        return self._read(conversation, question, reply, started)

    def _messages(self, conversation: Conversation, question: str) -> list[BaseMessage]:
        from langchain_core.messages import HumanMessage, SystemMessage

        system, user = asked(conversation, question, self._history_messages, self._assistant_chars)
        current().prompt((("system", system), ("user", user)))
        return [SystemMessage(system), HumanMessage(user)]

    def _read(self, conversation: Conversation, question: str, reply: str, started: float) -> Rewrite:
        """Judge the model's reply: kept, rewritten or refused."""
        text = parse(reply)
        current().record(said=reply)
        seconds = time.perf_counter() - started
        if not reply.strip():
            return self._failed(question, "The model said nothing.", started)
        if text is None or words(text) == words(question):
            return Rewrite(question, "keep", seconds=seconds)
        if reason := guard.check(conversation, question, text):
            return Rewrite(question, "refused", seconds=seconds, reason=reason)
        return Rewrite(text, "rewrite", seconds=seconds)

    def _failed(self, question: str, reason: str, started: float) -> Rewrite:
        return Rewrite(question, "failed", seconds=time.perf_counter() - started, reason=reason)

    def _too_long(self) -> str:
        return f"The model took longer than {self._timeout:g} s."


class _Call(threading.Thread):
    """One blocking request, on a thread of its own: a model that hangs holds up neither caller nor exit.

    Setting `late` makes it close its request with the next piece of text.
    """

    def __init__(self, chat_model: BaseChatModel, messages: list[BaseMessage], question: str) -> None:
        super().__init__(name="rewriter", daemon=True)
        self._model, self._messages, self._question = chat_model, messages, question
        self.late = threading.Event()
        self.said = ""
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with closing(cast("Generator[AIMessageChunk, None, None]", self._model.stream(self._messages))) as chunks:
                for chunk in chunks:
                    self.said += chunk.text
                    if self.late.is_set() or _complete(self.said, self._question):
                        break
        except model_errors() as error:
            self.error = error


def asked(
    conversation: Conversation, question: str, history_messages: int, assistant_chars: int = ASSISTANT_CHARS
) -> tuple[str, str]:
    """Build the messages for a question: the system's and the user's, with at most the newest messages of the
    history."""
    lines = [
        f"{message.role.capitalize()}: {_line(message.text, USER_CHARS if message.role == 'user' else assistant_chars)}"
        for message in (conversation.messages[-history_messages:] if history_messages else ())
    ]
    parts = {"question": _line(question, QUESTION_CHARS), "conversation": "\n".join(lines)}
    return load_prompt(PACKAGE, "rewrite").text, fill(load_prompt(PACKAGE, "conversation").text, parts)


def parse(reply: str) -> str | None:
    """The question a model proposes, labels and quotation marks cut; None where it says to keep the typed one."""
    if _KEEP.match(reply):
        return None
    lines = [line.strip() for line in reply.strip().splitlines() if line.strip()]
    if not lines:
        return None
    text = _LABEL.sub("", lines[0])
    # A label alone on its line: the question follows.
    if not text and len(lines) > 1:
        text = lines[1]
    if _KEEP.match(text):
        return None
    return text.strip(_QUOTES)


def model_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that chat models raise when they cannot be reached or answer with an error."""
    import httpx
    from langchain_core.exceptions import LangChainException
    from openai import OpenAIError

    return (OpenAIError, httpx.HTTPError, LangChainException, OSError, ValueError, RuntimeError)


def _cancellations() -> int:
    """How often the current task has been asked to stop."""
    task = asyncio.current_task()
    return task.cancelling() if task else 0


def _complete(reply: str, question: str) -> bool:
    """Whether the line is complete, or already longer than the guard would let pass."""
    text = reply.lstrip()
    return ("\n" in text and parse(text) != "") or len(text) > 3 * len(question) + 300


def _line(text: str, longest: int) -> str:
    """One escaped line of at most `longest` characters."""
    line = " ".join(escape(text).split())
    return line if len(line) <= longest else line[:longest].rsplit(" ", 1)[0] + "…"


def _unasked(error: Exception) -> str:
    return f"The model could not be asked ({type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]})."
