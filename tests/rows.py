"""Rows of the store as tests need them, and whose they are, where that does not matter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from server.access import DEFAULT_GROUP, LOCAL, Ownership

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from server.chat import ChatService
    from server.store.records import Trace

ALL = LOCAL
MINE = Ownership(LOCAL.id, DEFAULT_GROUP)


def begin_turn(
    connection: Connection, turn: str, conversation: str | None, question: str = "Why?", **values: Any
) -> None:
    """A turn over `docs` that is being answered."""
    from server.store import conversations, turns

    title, again = conversations.clean_title(question), values.pop("regenerate_of", None)
    about = {"id": turn, "conversation_id": conversation, "question": question, "collection": "docs"}
    belongs = {"runner": "me", "owner": MINE.owner, "group_name": MINE.group, "search_for": None}
    turns.begin(connection, {**about, **belongs, **values}, title=title, regenerate_of=again)


def finish_turn(connection: Connection, turn: str, answer: str = "Because.", **values: Any) -> None:
    """A turn that has been answered."""
    from server.store import turns

    usual: dict[str, Any] = {"status": "answered", "rewrite": None, "evidence": None, "ending": None, "trace": None}
    turns.finish(connection, turn, answer=answer, **{**usual, **values})


def trace_of(turn: str, conversation: str | None, created: float = 1.0) -> Trace:
    """The trace of a turn without steps."""
    from server.store.records import Trace

    return Trace(
        turn_id=turn, conversation_id=conversation, collection="docs", collection_version="1", engine="none",
        status="answered", created=created, seconds=0.1, steps=(),
    )  # fmt: skip


def ratings(service: ChatService) -> list[Row[Any]]:
    """Every rating, oldest first."""
    from server.store.schema import FEEDBACK

    ordered = select(FEEDBACK).order_by(FEEDBACK.c.created)
    return list(service.core.database.read_blocking(lambda connection: connection.execute(ordered).all()))
