"""Conversations and their turns: list, read, change, share, ask, rate; and searching as a turn does.

Request bodies are described here; responses are the service's own types.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import ConfigDict, Field, model_validator
from starlette.responses import Response

from index.documents import Where
from server.api.dependencies import (
    EVENTS,
    ConversationId,
    JsonInt,
    Listing,
    Service,
    StrictBody,
    TurnStream,
    event_bytes,
    while_connected,
)
from server.chat import (
    ConversationDetail,
    ConversationSummary,
    Feedback,
    Message,
    Rating,
    StoredTurn,
    TurnRequest,
)
from server.chat.conversations import NewShare, SearchResult
from server.chat.running_turn import RunningTurn
from text.files import NAME_CHARS, NAME_PATTERN

router = APIRouter(tags=["Conversations"])
feedback_router = APIRouter(tags=["Feedback"])
search_router = APIRouter(tags=["Search"])

TurnId = Annotated[str, Path(description="The turn's id, as in `done` events and in the header `X-Turn-Id`.")]


class NewConversation(StrictBody):
    """A conversation to be made."""

    collection: str | None = Field(
        default=None,
        description="The collection it is about; none: the default one.",
        pattern=NAME_PATTERN,
        max_length=NAME_CHARS,
    )
    title: str = Field(default="", max_length=400, description="Empty: its first question becomes its title.")
    model: str = Field(default="", description="One of `llm.choices` that is to answer; empty: the usual model.")


class ConversationChange(StrictBody):
    """A conversation's new title, who answers in it from now on, or the version of a turn to be shown."""

    title: str | None = Field(default=None, min_length=1, max_length=400, pattern=r"\S")
    model: str | None = Field(default=None, description="One of `llm.choices`; empty: the usual model.")
    shown_turn: str | None = Field(
        default=None,
        description="One of the `versions` of a turn: it takes its place, with what followed.",
    )


class NewTurn(StrictBody):
    """A question in a stored conversation."""

    question: str = Field(min_length=1, pattern=r"\S")
    search_for: str | None = Field(default=None, description="Search for this instead of the rewritten question.")
    where: Where | None = Field(default=None, description="Only passages whose metadata has these values.")
    regenerate_of: str | None = Field(
        default=None,
        description="The turn of which this is a new version; it is set aside with those after it, and kept.",
    )


@router.get("/v1/conversations", summary="List or search conversations")
async def list_conversations(
    service: Service,
    query: Annotated[str, Query(max_length=400, description="Words that a title, question or answer contains.")] = "",
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
) -> Listing[ConversationSummary]:
    """Newest first; a search adds an excerpt of what matched."""
    return Listing[ConversationSummary](
        data=await service.conversations.listing(query or None, limit=limit, offset=offset)
    )


@router.post("/v1/conversations", status_code=201, summary="Begin a conversation")
async def create_conversation(body: NewConversation, service: Service) -> ConversationSummary:
    """A new, empty conversation."""
    return await service.conversations.create(body.collection or "", body.title, body.model)


@router.get(
    "/v1/conversations/{conversation_id}",
    summary="Read or export a conversation",
    response_model=ConversationDetail,
    responses={200: {"description": "The conversation.", "content": {"text/markdown": {"schema": {"type": "string"}}}}},
)
async def read_conversation(
    conversation_id: ConversationId,
    service: Service,
    style: Annotated[
        Literal["markdown"] | None, Query(alias="format", description="As a file to be read by people.")
    ] = None,
) -> ConversationDetail | Response:
    """The conversation with the turns that are shown, oldest first; each names its other `versions`."""
    if style is None:
        return await service.conversations.get(conversation_id)
    text, name = await service.conversations.export(conversation_id), f"conversation-{conversation_id[:8]}.md"
    return Response(text, media_type="text/markdown", headers={"Content-Disposition": f'attachment; filename="{name}"'})


class ShareDays(StrictBody):
    """How long a link lasts."""

    days: JsonInt = Field(
        default=0, ge=0, le=3650, description="0: as long as the server allows (`server.share_days`)."
    )


@router.post(
    "/v1/conversations/{conversation_id}/shares",
    status_code=201,
    summary="Share a conversation by a link",
)
async def share(conversation_id: ConversationId, body: ShareDays, service: Service) -> NewShare:
    """Anybody with the link reads the conversation, without a key, until it expires, is taken back, or its author may
    not read it any more."""
    return await service.conversations.share(conversation_id, body.days)


@router.delete(
    "/v1/conversations/{conversation_id}/shares/{share_id}",
    status_code=204,
    summary="Take a link back",
)
async def take_back_share(
    conversation_id: ConversationId,
    share_id: Annotated[str, Path(description="The link's id.")],
    service: Service,
) -> None:
    """The link leads to nothing from now on."""
    await service.conversations.revoke_share(conversation_id, share_id)


@router.patch("/v1/conversations/{conversation_id}", summary="Change a conversation")
async def change_conversation(
    conversation_id: ConversationId, body: ConversationChange, service: Service
) -> ConversationDetail:
    """Give it another title, or another model to answer, or show another version of a turn."""
    if body.model is not None:
        await service.conversations.choose_model(conversation_id, body.model)
    if body.title is not None:
        await service.conversations.rename(conversation_id, body.title)
    if body.shown_turn is not None:
        return await service.conversations.show_version(conversation_id, body.shown_turn)
    return await service.conversations.get(conversation_id)


@router.delete("/v1/conversations/{conversation_id}", status_code=204, summary="Delete a conversation")
async def delete_conversation(conversation_id: ConversationId, service: Service) -> None:
    """Delete it with its turns, traces and feedback; it cannot be had back."""
    await service.conversations.delete(conversation_id)


@router.post(
    "/v1/conversations/{conversation_id}/turns",
    summary="Ask in a conversation",
    response_class=Response,
    responses={
        200: {
            "description": "Typed events: `rewrite`, `evidence`, at times `nearest` and `step`, `token`, `citation`, "
            "`support`, at times `fold`, then one `done` or `error`. The header `X-Turn-Id` names the turn.",
            "content": {"text/event-stream": EVENTS},
        }
    },
)
async def ask(conversation_id: ConversationId, body: NewTurn, service: Service) -> Response:
    """Answer a question and keep it; the events are those the page shows."""
    turn = await service.turns.begin(TurnRequest(conversation_id=conversation_id, **dict(body)))
    return TurnStream(turn, turn_events(turn))


async def turn_events(turn: RunningTurn) -> AsyncIterator[bytes]:
    """The typed events of a turn, as they are sent."""
    async for event in turn:
        yield event_bytes(event.model_dump_json(), event.type)


@router.get("/v1/turns/{turn_id}", summary="Read a turn")
async def read_turn(turn_id: TurnId, service: Service) -> StoredTurn:
    """A turn as it is kept, also one of which another version is shown."""
    return await service.turns.get(turn_id)


class NewFeedback(StrictBody):
    """A person's word on a turn, which replaces an earlier one, or a source of it that was opened."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["rating"]}, {"required": ["opened"]}]})

    turn_id: str
    rating: Rating | None = Field(
        default=None, description="None takes an earlier rating back; it may be left out beside `opened` alone."
    )
    reason: str = Field(default="", max_length=200, description="A short reason, such as one of the page's choices.")
    comment: str = Field(default="", max_length=4000)
    opened: int | None = Field(
        default=None, ge=1, description="The number of a source that whoever asked opened; of others it is not kept."
    )

    @model_validator(mode="after")
    def _says_something(self) -> NewFeedback:
        if self.model_fields_set.isdisjoint(("rating", "opened")):
            raise ValueError("needs `rating` or `opened`")
        return self


@feedback_router.post("/v1/feedback", summary="Rate a turn, take a rating back, or say which source was opened")
async def give_feedback(body: NewFeedback, service: Service) -> Feedback | None:
    """Keep a rating with its reason and comment; nothing is answered without one."""
    if body.opened is not None:
        await service.turns.note_opened(body.turn_id, body.opened)
    if "rating" not in body.model_fields_set:
        return None
    if body.rating is None:
        await service.turns.retract_feedback(body.turn_id)
        return None
    return await service.turns.give_feedback(body.turn_id, body.rating, body.reason, body.comment)


class SearchRequest(StrictBody):
    """A question, and what was said before it."""

    query: str = Field(description="The question as typed.", min_length=1, pattern=r"\S")
    collection: str = Field(default="", description="Empty: the default collection.")
    history: list[Message] = Field(default=[], description="Oldest first.")
    k: JsonInt = Field(default=10, ge=1, le=200, description="Passages wanted.")
    where: Where | None = Field(default=None, description="Only passages whose metadata has these values.")
    search_for: str | None = Field(default=None, description="Search for this instead of the rewritten question.")


@search_router.post("/v1/search", summary="Search a collection as a chat turn would")
async def search(body: SearchRequest, request: Request, service: Service) -> SearchResult:
    """Rewrite, search with every leg, fuse and rerank; best first, with the rank each search gave."""
    asked = TurnRequest(question=body.query, **{name: value for name, value in body if name not in ("query", "k")})
    return await while_connected(request, service.turns.search(asked, k=body.k))
