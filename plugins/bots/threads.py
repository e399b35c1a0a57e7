"""Threads of chat services: each is a conversation of whoever began it, who is a reader of the groups that are set."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Column, Connection, MetaData, Table, Text, delete, insert, select

from plugins.bots import BotSettings
from server.access import Principal
from server.chat import ChatError, ChatService, NotFound, Rating, TurnRequest
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
REMEMBERED = 1000
"""Messages of which a second delivery is known."""


@dataclass(frozen=True, slots=True)
class CitedSource:
    """A source of an answer: the number that people read, its headings, and its live page if it has one."""

    number: int
    label: str
    url: str


@dataclass(frozen=True, slots=True)
class BotAnswer:
    """An answer in Markdown, where markers are links. `turn` is empty where nothing can be rated."""

    text: str
    turn: str = ""
    sources: Sequence[CitedSource] = ()
    alternatives: Sequence[str] = ()
    note: str = ""


class Threads:
    """Answers in threads. Ids are texts such as `slack:TEAM:CHANNEL:TIME`, those of people `slack:TEAM:USER`."""

    def __init__(self, service: ChatService, settings: BotSettings) -> None:
        self._service = service
        self._settings = settings
        self._seen: OrderedDict[str, None] = OrderedDict()

    def is_new(self, message: str) -> bool:
        """Whether a message was not delivered before; services deliver some twice."""
        new = message not in self._seen
        self._seen[message] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return new

    async def knows(self, thread: str) -> bool:
        """Whether something was asked in a thread."""
        return await self._service.core.database.read(_find, thread) is not None

    async def answer(self, thread: str, person: str, question: str) -> BotAnswer:
        """Answer a question of a person; a refusal by a limit or a fault is an answer, too."""
        try:
            await self._as(person).admin.admit()
            view = await self._asked(thread, person, question)
        except ChatError as error:
            return BotAnswer(error.message)
        if view.error is not None:
            return BotAnswer(view.error.message)
        numbers, sources = view.numbers, dict[int, CitedSource]()
        for cited in view.citations:
            url = link_target(cited.url) or ""
            known = sources.get(cited.n)
            if known is None or not known.url:
                label = " › ".join((cited.title, *cited.heading))
                sources[cited.n] = CitedSource(numbers[cited.n], label, url)
        done = view.done
        return BotAnswer(
            text=linked(view.text, sources),
            turn=view.id or "",
            sources=sorted(sources.values(), key=lambda source: source.number),
            alternatives=[alternative.text for alternative in done.alternatives] if done else [],
            note=next((notice.text for notice in view.notices() if done and done.written), ""),
        )

    async def rate(self, thread: str, turn: str, rating: Rating) -> bool:
        """Keep what somebody thinks of an answer in a thread; False where there is no such answer."""
        row = await self._service.core.database.read(_find, thread)
        if row is None:
            return False
        who = self._as(row[1]).principal
        return await self._service.core.database.write(turns.rate, turn, rating, "", "", who) is not None

    def _as(self, person: str) -> ChatService:
        origin = person.partition(":")[0]
        groups = frozenset(self._settings.groups)
        return self._service.as_principal(Principal(person, person, "reader", groups, origin))

    async def _asked(self, thread: str, person: str, question: str) -> TurnView:
        row = await self._service.core.database.read(_find, thread)
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
