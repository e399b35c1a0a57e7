"""OpenAI's protocol: a collection is a model, which answers a conversation. Unknown fields are tolerated.

`fastapi-openai-compat` was weighed and left: it ends streams without `[DONE]`, knows no error after a stream has begun,
answers errors in FastAPI's shape, and does not notice a reader who left.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from index.documents import Where
from server.api.dependencies import (
    EVENTS,
    JsonInt,
    Service,
    TurnStream,
    error_body,
    event_bytes,
    while_connected,
)
from server.chat import (
    ChatError,
    CitationEvent,
    CollectionSummary,
    DoneEvent,
    ErrorEvent,
    Evidence,
    EvidenceEvent,
    FoldEvent,
    InvalidRequest,
    Message,
    NotFound,
    RewriteEvent,
    SupportEvent,
    TokenEvent,
    TurnRequest,
    Unavailable,
)
from server.chat.running_turn import MAX_HISTORY_MESSAGES, RunningTurn
from server.turn.events import Alternative, AnswerKind, Status
from server.turn.system_messages import NOT_BORNE_OUT
from text.languages import gettext


class _Tolerant(BaseModel):
    model_config = ConfigDict(extra="allow")


class TextPart(_Tolerant):
    """A piece of a message's text."""

    type: Literal["text", "input_text"]
    text: str


class RefusalPart(_Tolerant):
    """A piece of an earlier refusal."""

    type: Literal["refusal"]
    refusal: str


class ChatMessage(_Tolerant):
    """A message. System and developer messages, and those of tools, are accepted and not followed."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Annotated[TextPart | RefusalPart, Field(discriminator="type")]] | None = None

    @property
    def text(self) -> str:
        """The message as plain text."""
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        return "".join(part.text if isinstance(part, TextPart) else part.refusal for part in self.content)


class StreamOptions(_Tolerant):
    """Options of a stream."""

    include_usage: bool = Field(default=False, description="End with a chunk that tells the tokens used.")


class Options(BaseModel):
    """Options that OpenAI's request has no field for."""

    model_config = ConfigDict(extra="forbid")

    search_for: str | None = Field(default=None, description="Search for this instead of the rewritten question.")
    where: Where | None = Field(
        default=None, description="Only passages whose metadata equals these values, or is one of a list of values."
    )
    model: str = Field(default="", description="One of `llm.choices` that is to answer; empty: the usual model.")


class CompletionRequest(_Tolerant):
    """A conversation that ends with a question. Fields that mean nothing here, such as `tools`, are ignored."""

    model: str = Field(description="The collection to answer from.")
    messages: list[ChatMessage] = Field(min_length=1, description="The conversation, oldest first, the question last.")
    stream: bool | None = Field(default=False, description="Answer as server-sent events.")
    stream_options: StreamOptions | None = None
    max_tokens: JsonInt | None = Field(
        default=None, ge=1, description="Longest answer; may only lower the server's limit."
    )
    max_completion_tokens: JsonInt | None = Field(default=None, ge=1, description="The newer name of `max_tokens`.")

    n: Literal[1] | None = Field(default=1, description="One answer is given.")
    anaphora: Options | None = None


class Details(BaseModel):
    """Values that OpenAI's response has no field for."""

    turn_id: str = Field(description="Names the turn for feedback and traces.")
    status: Status
    citations: list[CitationEvent]
    rewrite: RewriteEvent | None
    evidence: list[Evidence]
    support: list[SupportEvent]
    dropped_citations: int
    seconds: dict[str, float]
    warning: str
    doubted: bool = Field(description="Whether the answer says itself that it may not answer.")
    folded: str = Field(description="As in the event `done` of a turn.")
    alternatives: list[Alternative] = Field(description="What may be meant, where `status` is `asked`.")
    answerable: float | None = Field(description="Calibrated chance that the passages answer the question.")
    answer_kind: AnswerKind | None = Field(description="As in the event `done` of a turn.")


class AssistantMessage(BaseModel):
    """The answer. `refusal` repeats it where the documents did not answer the question."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: str | None = None


class Choice(BaseModel):
    """The only answer there is."""

    index: Literal[0] = 0
    message: AssistantMessage
    finish_reason: Literal["stop", "length"]
    logprobs: None = None


class CompletionUsage(BaseModel):
    """Tokens as the model counted them; 0 where no model was asked."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Completion(BaseModel):
    """A whole answer."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: CompletionUsage
    anaphora: Details


_ROLES: dict[str, Literal["user", "assistant"]] = {"user": "user", "assistant": "assistant"}


def turn_request(request: CompletionRequest) -> TurnRequest:
    """The last message as the question, the newest messages before it as history.

    Raises InvalidRequest where the last message that counts is not the user's.
    """
    history = [Message(_ROLES[message.role], message.text) for message in request.messages if message.role in _ROLES]
    history = [turn for turn in history if turn.text.strip()]
    if not history or history[-1].role != "user":
        raise InvalidRequest("The last message must be a question of role `user`.", param="messages")
    return TurnRequest(
        **dict(request.anaphora or Options()),
        question=history[-1].text,
        collection=request.model,
        history=tuple(history[:-1][-MAX_HISTORY_MESSAGES:]),
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
                elif isinstance(event, FoldEvent):
                    # This protocol can take nothing back.
                    yield self._chunk({"content": f"\n\n---\n\n{gettext(NOT_BORNE_OUT)}\n\n"})
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


router = APIRouter(tags=["OpenAI"])


@router.post(
    "/v1/chat/completions",
    summary="Answer a conversation",
    response_model=Completion,
    responses={
        200: {
            "description": "The answer: one object, or with `stream` server-sent events of chunks ending in `[DONE]`. "
            'An error after the stream has begun is an event `{"error": …}`.',
            "content": {"text/event-stream": {**EVENTS, "x-chunk": "Chunk"}},
        }
    },
)
async def complete(body: CompletionRequest, request: Request, service: Service) -> Completion | Response:
    """Answer the last message from a collection, in the light of the messages before it."""
    turn = await service.turns.begin(turn_request(body))
    writer = Writer(turn, body)
    if body.stream:
        return TurnStream(turn, writer.chunks())
    try:
        return await while_connected(request, writer.whole())
    finally:
        await turn.aclose()


class ModelObject(BaseModel):
    """A collection. `created` is when its newest version was written, in seconds since the epoch."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: Literal["anaphora"] = "anaphora"
    documents: int = Field(description="Documents in the collection.")
    passages: int = Field(description="Passages that can be found.")


class ModelList(BaseModel):
    """Every collection."""

    object: Literal["list"] = "list"
    data: list[ModelObject]


def _model(info: CollectionSummary) -> ModelObject:
    return ModelObject(id=info.name, created=int(info.updated), documents=info.documents, passages=info.passages)


@router.get("/v1/models", summary="List collections as models")
async def list_models(service: Service) -> ModelList:
    """Every collection, by name."""
    return ModelList(data=[_model(info) for info in await service.collections.listing()])


@router.get("/v1/models/{model}", summary="Show one collection as a model")
async def show_model(
    model: Annotated[str, Path(description="The collection's name.")], service: Service
) -> ModelObject:
    """One collection."""
    for info in await service.collections.listing():
        if info.name == model:
            return _model(info)
    raise NotFound(f"There is no collection {model[:80]!r}.", code="model_not_found", param="model")
