"""Asking: from what the page sends to the pictures of the running turn that it shows.

Each picture is a whole: the article of one turn, its sources, and whether it is the last. Which
turn is where on the page is the page's own business.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TypeAlias, TypedDict

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from server.chat import ChatError, ChatService, Conflict, Event, TurnRequest
from text.translation import gettext
from ui.turns import TurnView

_log = logging.getLogger(__name__)


PACE = 0.05
"""Seconds between two pictures of a streaming answer at least."""

Tab: TypeAlias = tuple[str, str]
"""Its owner's id, and what the browser calls it."""


class LiveTurns:
    """The running turns of this page's visitors, by whose they are and the name the tab gave them."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, str], tuple[Tab, asyncio.Task[None]]] = {}

    def stop(self, owner: str, stream: str) -> bool:
        """Stop one turn of `owner`; False where it is not running."""
        if (owner, stream) not in self._running:
            return False
        self._running[owner, stream][1].cancel()
        return True

    def disconnect(self, tab: Tab) -> None:
        """The tab was closed: stop everything it had running."""
        for owner, reading in self._running.values():
            if owner == tab:
                reading.cancel()

    def __len__(self) -> int:
        """How many turns are running."""
        return len(self._running)

    async def follow(
        self, service: ChatService, request: TurnRequest, tab: Tab, stream: str
    ) -> AsyncIterator[list[Event]]:
        """The events of a turn in batches, `PACE` apart; ends early when stopped.

        Raises what the service raises. Leaving the iterator in any way ends the turn; `stop` and `disconnect`
        end it even if nobody asks the iterator for more, for Gradio forgets iterators of closed tabs.
        """
        key = tab[0], stream
        if key in self._running:
            raise Conflict("This question is being answered already.")
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        reading = asyncio.create_task(_read(service, request, events))
        self._running[key] = tab, reading
        reading.add_done_callback(lambda _: self._ended(key, events))
        try:
            ended = False
            while not ended:
                batch = [await events.get()]
                while not events.empty():
                    batch.append(events.get_nowait())
                ended = batch[-1] is None
                if seen_events := [event for event in batch if event is not None]:
                    yield seen_events
                await asyncio.wait({reading}, timeout=PACE)
            if not reading.cancelled():
                reading.result()
        finally:
            reading.cancel()
            # The turn is kept as interrupted by the time it is read again.
            await asyncio.wait({reading})

    def _ended(self, key: tuple[str, str], events: asyncio.Queue[Event | None]) -> None:
        del self._running[key]
        events.put_nowait(None)


async def _read(service: ChatService, request: TurnRequest, events: asyncio.Queue[Event | None]) -> None:
    async for event in service.turns.ask(request):
        events.put_nowait(event)


class Ask(BaseModel):
    """A question as the page sends it. `stream` is the page's name for the running turn."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    stream: str = Field(min_length=8, max_length=64, pattern=r"^[A-Za-z0-9-]+$")
    question: str = Field(min_length=1)
    collection: str = ""
    model: str = ""
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


async def ask(service: ChatService, live: LiveTurns, tab: Tab, data: object) -> AsyncIterator[Picture]:
    """Answer the question in `data` (an `Ask`) for the tab `tab`, in a new conversation where it names none.

    Ends with a final picture whatever happens, so that the page never waits for one.
    """
    try:
        ask = Ask.model_validate(data)
    except ValidationError:
        # Nothing to draw it on: a page of ours does not send this.
        _log.warning("a question arrived malformed and was dropped")
        return
    view = TurnView(ask.stream, ask.question, ask.collection, ask.search_for)
    view.ratable, view.traced = service.admin.may("rate"), service.admin.may("review")
    conversation = ask.conversation
    try:
        await service.admin.admit()
        if conversation is None:
            created = await service.conversations.create(ask.collection, model=ask.model)
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
        if ask.instead_of and view.id:
            view.versions = (await service.turns.get(view.id)).versions
        yield picture(ask, conversation, view, final=True)
        return
    except ChatError as error:
        view.refuse(error.message)
    except Exception:  # noqa: BLE001 - the error handler: the page must hear that it failed
        _log.exception("a turn failed")
        view.refuse(gettext("Something went wrong on the server; its log says what. Ask again, or reload the page."))
    if ask.conversation is None and conversation is not None:
        with suppress(ChatError):
            await service.conversations.delete(conversation)
        conversation = None
    yield picture(ask, conversation, view, final=True, kept=False)


async def _last_turn(service: ChatService, conversation: str) -> str | None:
    messages = (await service.conversations.get(conversation)).messages
    return messages[-1].id if messages else None
