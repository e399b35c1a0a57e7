"""Asking: from what the page sends to the pictures of the running turn that it shows.

Each picture is a whole: the article of one turn, its sources, and whether it is the last. Which
turn is where on the page is the page's own business.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from typing import TypedDict

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from server.chat import ChatError, ChatService, Conflict, Event, TurnRequest, Where
from text.languages import gettext
from ui.turns import TurnView

_log = logging.getLogger(__name__)


PACE = 0.05
"""Seconds between two pictures of a streaming answer at least."""

POLL = 1.0
"""Seconds between two looks at a turn that another server process answers."""
LONGEST = 600
"""Looks at it at most: a turn ends before."""
WATCHED = 50
"""Streams by which one principal may watch turns at once: there are as many for everybody as Gradio runs."""


class LiveTurn:
    """A turn that runs on its own and keeps its events for those who follow it. `id` is there once it has begun."""

    def __init__(self, service: ChatService, request: TurnRequest) -> None:
        self.id = ""
        self._service, self._request = service, request
        self._events: list[Event] = []
        self._grown = asyncio.Event()
        self.task = asyncio.create_task(self._run())
        self.task.add_done_callback(lambda _: self._grown.set())

    async def _run(self) -> None:
        running = await self._service.turns.begin(self._request)
        self.id = running.id
        try:
            async for event in running:
                self._events.append(event)
                self._grown.set()
        finally:
            await running.aclose()

    async def follow(self) -> AsyncIterator[list[Event]]:
        """The events from the first on, in batches, `PACE` apart; ends early where the turn is stopped.

        Raises what the service raises. Any number may follow; leaving the iterator changes nothing.
        """
        at = 0
        while True:
            self._grown.clear()
            if at < len(self._events):
                batch, at = self._events[at:], len(self._events)
                yield batch
                await asyncio.wait({self.task}, timeout=PACE)
            elif self.task.done():
                break
            else:
                await self._grown.wait()
        if not self.task.cancelled():
            self.task.result()


class LiveTurns:
    """The running turns of this page's visitors, by whose they are and the names that their tabs gave them.

    A turn belongs to the server: it goes on when its page is reloaded or loses the connection, and only `stop` ends it.
    `tasks` are those that the service ends before it closes.
    """

    def __init__(self, tasks: set[asyncio.Task[None]] | None = None) -> None:
        self._running: dict[tuple[str, str], LiveTurn] = {}
        self._tasks = set[asyncio.Task[None]]() if tasks is None else tasks
        self._watching = Counter[str]()

    @contextmanager
    def watched(self, owner: str) -> Iterator[None]:
        """Count a stream by which `owner` watches a turn. Raises Conflict for one too many."""
        if self._watching[owner] >= WATCHED:
            raise Conflict("Too many tabs watch answers; close some.")
        self._watching[owner] += 1
        try:
            yield
        finally:
            self._watching[owner] -= 1
            self._watching += Counter()  # without those of nobody

    def stop(self, owner: str, stream: str) -> bool:
        """Stop one turn of `owner`; False where it is not running."""
        live = self._running.get((owner, stream))
        return live is not None and live.task.cancel()

    def __len__(self) -> int:
        return len(set(self._running.values()))

    def start(self, service: ChatService, request: TurnRequest, owner: str, stream: str) -> LiveTurn:
        """Begin a turn. Raises Conflict if the name is taken."""
        if (owner, stream) in self._running:
            raise Conflict("This question is being answered already.")
        live = LiveTurn(service, request)
        self._tasks.add(live.task)
        self._running[owner, stream] = live
        live.task.add_done_callback(lambda _: self._ended(live))
        return live

    def find(self, owner: str, turn: str, stream: str) -> LiveTurn | None:
        """The running turn of `owner` with that id, which may be stopped as `stream` from now on; None if none runs."""
        live = next((other for (who, _), other in self._running.items() if who == owner and other.id == turn), None)
        if live is not None:
            self._running[owner, stream] = live
        return live

    def _ended(self, live: LiveTurn) -> None:
        self._tasks.discard(live.task)
        if not live.task.cancelled():
            live.task.exception()  # told to those who follow; there may be none
        self._running = {key: other for key, other in self._running.items() if other is not live}


class Ask(BaseModel):
    """A question as the page sends it. `stream` is the page's name for the running turn."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    stream: str = Field(min_length=8, max_length=64, pattern=r"^[A-Za-z0-9-]+$")
    question: str = Field(min_length=1)
    collection: str = ""
    model: str = ""
    conversation: str | None = None
    search_for: str | None = None
    where: Where | None = None
    instead_of: str | None = None
    watch: str = ""
    """The id of a turn that runs already: nothing is asked, its pictures are drawn."""


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


async def ask(service: ChatService, live: LiveTurns, owner: str, data: object) -> AsyncIterator[Picture]:
    """Answer the question in `data` (an `Ask`) of `owner`, in a new conversation where it names none.

    Ends with a final picture whatever happens, so that the page never waits for one. Leaving the iterator does not end
    the turn; a later `Ask` may `watch` it.
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
        if ask.watch:
            with live.watched(owner):
                async for update in _watched(service, live, owner, ask, view):
                    yield update
            return
        await service.admin.admit()
        if conversation is None:
            created = await service.conversations.create(ask.collection, model=ask.model)
            conversation, view.collection = created.id, created.collection
        request = TurnRequest(
            question=ask.question,
            collection=ask.collection,
            conversation_id=conversation,
            search_for=ask.search_for,
            where=ask.where,
            regenerate_of=ask.instead_of,
        )
        yield picture(ask, conversation, view, final=False)
        turn = live.start(service, request, owner, ask.stream)
        async for update in _drawn(turn, ask, conversation, view):
            yield update
        if view.state == "running":
            view.stop()
            view.id = turn.id or None
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


async def _drawn(turn: LiveTurn, ask: Ask, conversation: str | None, view: TurnView) -> AsyncIterator[Picture]:
    """The pictures of a running turn, but for the final one."""
    async for batch in turn.follow():
        for event in batch:
            view.add(event)
        if view.state == "running":
            yield picture(ask, conversation, view, final=False)


async def _watched(
    service: ChatService, live: LiveTurns, owner: str, ask: Ask, view: TurnView
) -> AsyncIterator[Picture]:
    """The pictures of a turn that runs already, here or in another server process."""
    running = live.find(owner, ask.watch, ask.stream)
    if running is not None:
        async for update in _drawn(running, ask, ask.conversation, view):
            yield update
    for _ in range(LONGEST):
        stored = await service.turns.get(ask.watch)
        if stored.status != "pending":
            break
        await asyncio.sleep(POLL)
    seen = TurnView.of(stored, ratable=view.ratable, traced=view.traced)
    seen.key = ask.stream
    yield picture(ask, ask.conversation, seen, final=True)
