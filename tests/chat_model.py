"""A chat model that says what a script tells it, for whatever is handed a LangChain chat model."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import ConfigDict, Field

FOREVER = float("inf")
"""A pause that only a caller who stops listening ends."""

Piece = str | AIMessageChunk | float | asyncio.Event | Exception
"""A text or chunk to say, seconds to wait, an event to wait for (not when it is asked blocking), an error to raise."""

Reply = str | tuple[str, str] | Exception
"""A whole answer: a text, a text and its finish reason, or an error to raise."""


class ScriptedChatModel(BaseChatModel):
    """Streams the pieces of `script`, or answers with what `script` makes of the messages.

    `asked` and `options` keep the messages and arguments of each request, `said` what was streamed. `waiting` is set
    when the first pause begins; `closed` gets an entry whenever a stream ends, in whatever way.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    script: Sequence[Any] | Callable[[list[BaseMessage]], Reply]
    asked: list[list[BaseMessage]] = Field(default_factory=list)
    options: list[dict[str, Any]] = Field(default_factory=list)
    said: list[str] = Field(default_factory=list)
    closed: list[bool] = Field(default_factory=list)
    waiting: threading.Event = Field(default_factory=threading.Event)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return generate_from_stream(self._stream(messages, stop, run_manager, **kwargs))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        yield from self._speak(self._begin(messages, kwargs))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        # A script of its own may take its time, or block.
        pieces = await asyncio.to_thread(self._begin, messages, kwargs)
        try:
            for piece in pieces:
                if isinstance(piece, float | asyncio.Event):
                    self.waiting.set()
                    await (asyncio.sleep(piece) if isinstance(piece, float) else piece.wait())
                else:
                    yield self._chunk(piece)
        finally:
            self.closed.append(True)

    def _begin(self, messages: list[BaseMessage], options: dict[str, Any]) -> Sequence[Any]:
        self.asked.append(messages)
        self.options.append(options)
        if not callable(self.script):
            return self.script
        reply = self.script(messages)
        if isinstance(reply, Exception):
            return [reply]
        text, finish = reply if isinstance(reply, tuple) else (reply, "stop")
        usage = UsageMetadata(input_tokens=10, output_tokens=5, total_tokens=15)
        return [AIMessageChunk(content=text, usage_metadata=usage, response_metadata={"finish_reason": finish})]

    def _speak(self, pieces: Sequence[Any]) -> Iterator[ChatGenerationChunk]:
        try:
            for piece in pieces:
                if isinstance(piece, float):
                    self.waiting.set()
                    time.sleep(piece)
                else:
                    yield self._chunk(piece)
        finally:
            self.closed.append(True)

    def _chunk(self, piece: Any) -> ChatGenerationChunk:
        if isinstance(piece, Exception):
            raise piece
        message = piece if isinstance(piece, AIMessageChunk) else AIMessageChunk(content=piece)
        self.said.append(message.text)
        return ChatGenerationChunk(message=message)
