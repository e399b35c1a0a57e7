"""Asking: from what the page sends to the pictures of the running turn that it shows.

Each picture is a whole: the article of one turn, its sources, and whether it is the last. Which
turn is where on the page is the page's own business.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TypedDict

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from server.chat import ChatError, ChatService, QueueFull, TurnRequest
from ui.live import LiveTurns
from ui.turns import TurnView


class Ask(BaseModel):
    """A question as the page sends it. `stream` is the page's name for the running turn."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    stream: str = Field(min_length=8, max_length=64, pattern=r"^[A-Za-z0-9-]+$")
    question: str = Field(min_length=1)
    collection: str = ""
    conversation: str | None = None
    search_for: str | None = None
    instead_of: str | None = None


class Picture(TypedDict):
    """The state of a running turn as the page draws it."""

    stream: str
    conversation: str | None
    turn: str | None
    html: str
    sources: str
    final: bool
    kept: bool


def read_ask(data: object) -> Ask:
    """Check what a page sent. Raises `ChatError` with what to do."""
    try:
        return Ask.model_validate(data)
    except ValidationError as error:
        raise ChatError("The question did not arrive whole; reload the page and ask again.") from error


def picture(ask: Ask, conversation: str | None, view: TurnView, *, final: bool, kept: bool = True) -> Picture:
    """The page's next picture. `kept` is False where the turn never began."""
    return Picture(
        stream=ask.stream,
        conversation=conversation,
        turn=view.id,
        html=str(view.html()),
        sources=str(view.sources_html()),
        final=final,
        kept=kept,
    )


def problem(error: ChatError) -> str:
    """An error with its remedy, for a person."""
    if isinstance(error, QueueFull):
        return f"{error.message} Try again in {error.retry_after} s."
    return error.message


async def ask(service: ChatService, live: LiveTurns, tab: str, ask: Ask) -> AsyncIterator[Picture]:
    """Answer a question in the tab `tab`, in a new conversation where it names none."""
    view = TurnView(ask.stream, ask.question, ask.collection, ask.search_for)
    conversation = ask.conversation
    try:
        if conversation is None:
            created = await service.create_conversation(ask.collection)
            conversation, view.collection = created.id, created.collection
        request = TurnRequest(
            question=ask.question,
            collection=ask.collection,
            conversation_id=conversation,
            search_for=ask.search_for,
            regenerate_of=ask.instead_of,
        )
        yield picture(ask, conversation, view, final=False)
        async for batch in live.follow(service, request, tab, ask.stream):
            for event in batch:
                view.add(event)
            if view.state == "running":
                yield picture(ask, conversation, view, final=False)
        if view.state == "running":
            view.stop()
            view.id = await _last_turn(service, conversation)
        yield picture(ask, conversation, view, final=True)
    except ChatError as error:
        view.refuse(problem(error))
        if ask.conversation is None and conversation is not None:
            await service.delete_conversation(conversation)
            conversation = None
        yield picture(ask, conversation, view, final=True, kept=False)


async def _last_turn(service: ChatService, conversation: str) -> str | None:
    messages = (await service.conversation(conversation)).messages
    return messages[-1].id if messages else None
