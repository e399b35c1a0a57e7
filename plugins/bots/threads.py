"""Threads of chat services: each is a conversation of whoever began it. This half runs in the server."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pkgutil import resolve_name
from typing import Any, Literal, TypeAlias

from sqlalchemy import Column, Connection, MetaData, Table, Text, delete, insert, select

from server.chat import ChatError, ChatService, NotFound, Rating, TurnRequest
from server.chat.base import found_or_missing
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
    """Threads of the bots that have one key; `service` acts for it. A person is a reader of the key's groups.

    Ids are texts such as `slack:TEAM:CHANNEL:TIME`, those of people `slack:TEAM:USER`.
    """

    def __init__(self, service: ChatService) -> None:
        self._service = service

    async def knows(self, thread: str) -> bool:
        return await self._read(thread) is not None

    async def answer(self, thread: str, person: str, question: str, collection: str = "") -> BotAnswer:
        """Answer a question of a person. Raises ChatError where it is refused."""
        view = await self._asked(thread, person, question, collection)
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

    async def rate(self, thread: str, turn: str, rating: Rating) -> None:
        """Keep what somebody thinks of an answer in a thread. Raises NotFound."""
        acting = await self._owner(thread)
        rating_row = await self._service.core.database.write(turns.rate, turn, rating, "", "", acting.principal)
        found_or_missing(rating_row, "turn", turn)

    async def hand_over(self, thread: str, turn: str, place: str) -> None:
        """Pass a thread up to a turn on to a person, who finds it at `place`. Raises ChatError."""
        acting = await self._owner(thread)
        if (handoff := _plugin_part("handoff", "handoffs")) is None:
            raise NotFound("Nobody takes conversations over.")
        new = handoff.NewHandoff(consent=True, message=f"Asked at {place}")
        await handoff.HandoffService(acting.core, acting.principal).hand_over(turn, new)

    async def _offered(self, thread: str, turn: str) -> tuple[Handoff, str]:
        """Return how a person is offered after a turn, and the address if it is a link."""
        handoff = _plugin_part("handoff", "handoffs")
        if handoff is None or not turn:
            return "", ""
        acting = await self._owner(thread)
        with suppress(ChatError):
            offer = await handoff.HandoffService(acting.core, acting.principal).offer(turn)
            return offer.kind, offer.link
        return "", ""

    async def _owner(self, thread: str) -> ChatService:
        return self._as(found_or_missing(await self._read(thread), "thread", thread)[1])

    async def _read(self, thread: str) -> tuple[str, str] | None:
        return await self._service.core.database.read(_find, self._id(thread))

    def _id(self, thread: str) -> str:
        return f"{self._service.principal.id} {thread}"

    def _as(self, person: str) -> ChatService:
        return self._service.as_principal(replace(self._service.principal.for_visitor(person), role="reader"))

    async def _asked(self, thread: str, person: str, question: str, collection: str) -> TurnView:
        row = await self._read(thread)
        if row is not None:
            try:
                return await self._turn(self._as(row[1]), row[0], question)
            except NotFound:
                pass  # deleted, or no longer theirs: the thread begins anew
        acting = self._as(person)
        conversation = await acting.conversations.create(collection)
        belongs = {"conversation_id": conversation.id, "collection": conversation.collection, "owner": person}
        row_id = {"id": self._id(thread), "created": time.time()}
        await self._service.core.database.write(_put, {**row_id, **belongs})
        return await self._turn(acting, conversation.id, question)

    async def _turn(self, acting: ChatService, conversation: str, question: str) -> TurnView:
        view = TurnView("", question, "")
        async for event in acting.turns.ask(TurnRequest(question=question, conversation_id=conversation)):
            view.add(event)
        return view


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
