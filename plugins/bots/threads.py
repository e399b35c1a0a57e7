"""Threads of chat services: each is a conversation of whoever began it."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, Literal, TypeAlias

from filelock import FileLock, Timeout
from sqlalchemy import Column, Connection, MetaData, Table, Text, delete, insert, select

from plugins.bots import BotSettings
from server.access import Principal
from server.chat import ChatError, ChatService, NotFound, Rating, TurnRequest
from server.chat.base import found_or_missing, translated
from server.plugins import installed_plugins
from server.store import turns
from server.store.schema import SECONDS, TableGroup
from ui.safe_html import link_target
from ui.turns import TurnView

_METADATA = MetaData()
THREADS = Table(
    "bot_threads",
    _METADATA,
    Column("id", Text, primary_key=True),
    *(Column(name, Text, nullable=False) for name in ("conversation_id", "collection", "owner")),
    Column("created", SECONDS, nullable=False),
    sqlite_strict=True,
)
TABLES = TableGroup(_METADATA, erased=(THREADS,))

log = logging.getLogger(__name__)

AGAIN_SECONDS = 30.0
"""A bot whose connection failed is begun again after so long."""
CONSENT = "This conversation may be sent to the people who help here."
_REMEMBERED = 1000
"""Messages of which a second delivery is known."""
_PLACE_CHARS = 1000
_MARKER = re.compile(r"\[(\d{1,3})\](?!\()")
_IMAGE = re.compile(r"!+(?=\[)")
Handoff: TypeAlias = Literal["", "link", "form"]


@dataclass(frozen=True, slots=True)
class CitedSource:
    """A source of an answer: the number that people read, its headings, and its live page if it has one."""

    number: int
    label: str
    url: str


@dataclass(frozen=True, slots=True)
class BotAnswer:
    """An answer in Markdown, where markers are links. `turn` is empty where nothing can be rated.

    With a `handoff` a person is offered: by a `link`, or by passing the thread on.
    """

    text: str
    turn: str = ""
    sources: Sequence[CitedSource] = ()
    alternatives: Sequence[str] = ()
    note: str = ""
    handoff: Handoff = ""
    link: str = ""


class Threads:
    """Threads of the bots of a server. A person is a reader of the groups of the settings.

    Ids are texts such as `slack:TEAM:CHANNEL:TIME`, those of people `slack:TEAM:USER`.
    """

    def __init__(self, service: ChatService) -> None:
        self._service = service
        self._settings = service.settings.of(BotSettings)
        self._seen: OrderedDict[str, None] = OrderedDict()

    def is_new(self, message: str) -> bool:
        """Whether a message was not delivered before; services deliver some twice."""
        new = message not in self._seen
        self._seen[message] = None
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return new

    async def knows(self, thread: str) -> bool:
        """Whether something was asked in a thread."""
        return await self._read(thread) is not None

    async def answer(self, thread: str, person: str, question: str) -> BotAnswer:
        """Answer a question of a person; a refusal is an answer, too."""
        try:
            with translated():
                view = await self._asked(thread, person, question)
        except ChatError as error:
            return BotAnswer(error.message)
        if view.error is not None:
            return BotAnswer(view.error.message)
        numbers, sources = view.numbers, dict[int, CitedSource]()
        for cited in view.citations:
            url = link_target(cited.url) or ""
            source = sources.get(cited.n)
            if source is None or not source.url:
                label = " › ".join((cited.title, *cited.heading))
                sources[cited.n] = CitedSource(numbers[cited.n], label, url)
        done = view.done
        person_is, link = await self._offered(thread, view.id or "")
        return BotAnswer(
            text=linked(view.text, sources),
            turn=view.id or "",
            sources=sorted(sources.values(), key=lambda source: source.number),
            alternatives=[alternative.text for alternative in done.alternatives] if done else [],
            note=next((notice.text for notice in view.notices() if done and done.written), ""),
            handoff=person_is,
            link=link,
        )

    async def rate(self, thread: str, turn: str, rating: Rating) -> str:
        """Keep what somebody thinks of an answer, and return what to tell."""
        try:
            with translated():
                who = (await self._owner(thread)).principal
                rated = await self._service.core.database.write(turns.rate, turn, rating, "", "", who)
                found_or_missing(rated, "turn", turn)
        except NotFound:
            return "This answer is not kept any more."
        except ChatError as error:
            return error.message
        return "Thank you, noted."

    async def hand_over(self, thread: str, turn: str, place: str) -> str:
        """Pass a thread up to a turn on to a person, who finds it at `place`, and return what to tell."""
        if (handoff := _plugin_part("handoff", "handoffs")) is None:
            return "Nobody takes conversations over."
        try:
            with translated():
                acting = await self._owner(thread)
            new = handoff.NewHandoff(consent=True, message=f"Asked at {place}"[:_PLACE_CHARS])
            await handoff.HandoffService(acting.core, acting.principal).hand_over(turn, new)
        except ChatError as error:
            return error.message
        return "Your conversation was passed on to a person."

    async def _offered(self, thread: str, turn: str) -> tuple[Handoff, str]:
        """Return how a person is offered after a turn, and the address if it is a link."""
        handoff = _plugin_part("handoff", "handoffs")
        if handoff is None or not turn:
            return "", ""
        with suppress(ChatError):
            acting = await self._owner(thread)
            offer = await handoff.HandoffService(acting.core, acting.principal).offer(turn)
            return offer.kind, offer.link
        return "", ""

    async def _owner(self, thread: str) -> ChatService:
        return self._as(found_or_missing(await self._read(thread), "thread", thread)[1])

    async def _read(self, thread: str) -> tuple[str, str] | None:
        return await self._service.core.database.read(_find, thread)

    def _as(self, person: str) -> ChatService:
        return self._service.as_principal(Principal(person, person, "reader", frozenset(self._settings.groups)))

    async def _asked(self, thread: str, person: str, question: str) -> TurnView:
        await self._as(person).admin.admit()
        row = await self._read(thread)
        if row is not None:
            try:
                return await self._turn(self._as(row[1]), row[0], question)
            except NotFound:
                pass  # deleted, or no longer theirs: the thread begins anew
        acting = self._as(person)
        conversation = await acting.conversations.create(self._settings.collection)
        belongs = {"conversation_id": conversation.id, "collection": conversation.collection, "owner": person}
        await self._service.core.database.write(_put, {"id": thread, "created": time.time(), **belongs})
        return await self._turn(acting, conversation.id, question)

    async def _turn(self, acting: ChatService, conversation: str, question: str) -> TurnView:
        view = TurnView("", question, "")
        async for event in acting.turns.ask(TurnRequest(question=question, conversation_id=conversation)):
            view.add(event)
        return view


async def keep_answering(service: ChatService, name: str, run: Callable[[Threads], Awaitable[None]]) -> None:
    """Let a bot answer until cancelled, and begin again where its connection fails. Of several servers one does."""
    lock = FileLock(service.settings.home / "run" / f"{name}-bot", timeout=0)
    while True:
        try:
            with lock:
                await run(Threads(service))
        except Timeout:
            pass  # another server of this home answers
        except Exception as error:  # noqa: BLE001  (whatever the service's library raises)
            log.error("the bot in %s does not answer, and is tried again: %s", name, error)
        await asyncio.sleep(AGAIN_SECONDS)


def _plugin_part(plugin: str, module: str) -> Any:
    """Return a module of another plugin; None where it is not installed."""
    return resolve_name(f"plugins.{plugin}.{module}") if plugin in installed_plugins() else None


def _find(connection: Connection, thread: str) -> tuple[str, str] | None:
    row = connection.execute(select(THREADS.c.conversation_id, THREADS.c.owner).where(THREADS.c.id == thread)).first()
    return (row[0], row[1]) if row else None


def _put(connection: Connection, row: dict[str, object]) -> None:
    connection.execute(delete(THREADS).where(THREADS.c.id == row["id"]))
    connection.execute(insert(THREADS), row)


def linked(text: str, sources: dict[int, CitedSource]) -> str:
    """Return Markdown in which `[n]` is the number that people read, and a link where the source has an address.

    An image becomes a link: whoever shows it would ask its address.
    """

    def marked(match: re.Match[str]) -> str:
        source = sources.get(int(match[1]))
        if source is None:
            return match[0]
        return f"[[{source.number}]]({safe_address(source.url)})" if source.url else f"[{source.number}]"

    return _MARKER.sub(marked, _IMAGE.sub("", text))


def safe_address(url: str) -> str:
    """Return an address that is safe in a Markdown link."""
    return url.replace("(", "%28").replace(")", "%29").replace(" ", "%20").replace("<", "%3C").replace(">", "%3E")
