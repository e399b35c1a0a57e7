"""From OpenAI's messages to a turn, and from a turn's events to OpenAI's answer."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Literal

from server.api.chat_completions.protocol import (
    AssistantMessage,
    Choice,
    Completion,
    CompletionRequest,
    CompletionUsage,
    Details,
    Options,
)
from server.api.errors import error_body
from server.api.sse import event_bytes
from server.chat import (
    ChatError,
    DoneEvent,
    ErrorEvent,
    EvidenceEvent,
    InvalidRequest,
    Message,
    RewriteEvent,
    RunningTurn,
    TokenEvent,
    TurnRequest,
    Unavailable,
)

_ROLES: dict[str, Literal["user", "assistant"]] = {"user": "user", "assistant": "assistant"}


def turn_request(request: CompletionRequest, history_turns: int) -> TurnRequest:
    """The last message as the question, the newest `history_turns` before it as history.

    Raises InvalidRequest where the last message that counts is not the user's.
    """
    said = [Message(_ROLES[message.role], message.text) for message in request.messages if message.role in _ROLES]
    said = [turn for turn in said if turn.text.strip()]
    if not said or said[-1].role != "user":
        raise InvalidRequest("The last message must be a question of role `user`.", param="messages")
    return TurnRequest(
        **dict(request.anaphora or Options()),
        question=said[-1].text,
        collection=request.model,
        history=tuple(said[:-1][-history_turns:] if history_turns else ()),
        answer_tokens=request.max_completion_tokens or request.max_tokens,
    )


class Writer:
    """Writes one turn as OpenAI's answer, whole or in chunks."""

    def __init__(self, turn: RunningTurn, request: CompletionRequest) -> None:
        self._turn = turn
        self._model = request.model
        self._with_usage = bool(request.stream_options and request.stream_options.include_usage)
        self._id = f"chatcmpl-{turn.id}"
        self._created = int(time.time())
        self._rewrite: RewriteEvent | None = None
        self._evidence: EvidenceEvent | None = None

    async def whole(self) -> Completion:
        """The finished answer. Raises Unavailable where the turn ended in an error."""
        async for event in self._turn:
            self._note(event)
            if isinstance(event, ErrorEvent):
                raise Unavailable(event.message, code=event.code)
            if isinstance(event, DoneEvent):
                answer = AssistantMessage(
                    content=event.answer, refusal=event.answer if event.status == "refused" else None
                )
                return Completion(
                    id=self._id,
                    created=self._created,
                    model=self._model,
                    choices=[Choice(message=answer, finish_reason=event.finish_reason)],
                    usage=_usage(event),
                    anaphora=self._details(event),
                )
        raise Unavailable("The turn ended without an answer.", code="internal_error")

    async def chunks(self) -> AsyncIterator[bytes]:
        """The answer as server-sent events; what goes wrong from here on is an event too."""
        yield self._chunk({"role": "assistant", "content": ""})
        try:
            async for event in self._turn:
                self._note(event)
                if isinstance(event, TokenEvent):
                    yield self._chunk({"content": event.text})
                elif isinstance(event, ErrorEvent):
                    yield event_bytes(json.dumps(error_body(503, event.message, code=event.code)))
                elif isinstance(event, DoneEvent):
                    for chunk in self._ending(event):
                        yield chunk
        except ChatError as error:
            yield event_bytes(json.dumps(error_body(503, error.message, code=error.code)))
        yield event_bytes("[DONE]")

    def _ending(self, done: DoneEvent) -> list[bytes]:
        refusal = {"refusal": done.answer} if done.status == "refused" else {}
        last = [self._chunk(refusal, done.finish_reason, anaphora=self._details(done).model_dump(mode="json"))]
        return [*last, self._event([], usage=_usage(done).model_dump())] if self._with_usage else last

    def _note(self, event: object) -> None:
        if isinstance(event, RewriteEvent):
            self._rewrite = event
        elif isinstance(event, EvidenceEvent):
            self._evidence = event

    def _chunk(self, delta: Mapping[str, str], finish_reason: str | None = None, **more: object) -> bytes:
        """The next piece of the answer; the one with a `finish_reason` carries `anaphora`."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        return self._event([choice], **({"usage": None} if self._with_usage else {}), **more)

    def _event(self, choices: Sequence[Mapping[str, object]], **more: object) -> bytes:
        about = {"id": self._id, "object": "chat.completion.chunk", "created": self._created, "model": self._model}
        return event_bytes(json.dumps({**about, "choices": choices, **more}, ensure_ascii=False))

    def _details(self, done: DoneEvent) -> Details:
        evidence = self._evidence.passages if self._evidence else []
        return Details(**dict(done), rewrite=self._rewrite, evidence=evidence)


def _usage(done: DoneEvent) -> CompletionUsage:
    return CompletionUsage(
        prompt_tokens=done.prompt_tokens,
        completion_tokens=done.completion_tokens,
        total_tokens=done.prompt_tokens + done.completion_tokens,
    )
