"""Traces older than the settings allow are forgotten, and nothing else is."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest
from sqlalchemy import update

from server.chat import service
from server.chat.service import AT_ONCE, Forget, purge_expired
from server.store import Database, conversations, turns
from server.store.schema import TURNS
from tests.rows import ALL, MINE, begin_turn, finish_turn, trace_of

DAY = 86_400.0


def keep(database: Database, turn_id: str, days: float, conversation_id: str | None = None) -> None:
    """A turn of so many days ago, with its trace."""
    created = time.time() - days * DAY
    database.write_blocking(lambda c: begin_turn(c, turn_id, conversation_id))
    trace = trace_of(turn_id, conversation_id, created)
    database.write_blocking(lambda c: finish_turn(c, turn_id, trace=trace))
    earlier = update(TURNS).where(TURNS.c.id == turn_id).values(created=created)
    database.write_blocking(lambda c: c.execute(earlier))


def forget(database: Database, days: int, what: Forget = turns.forget_traces) -> None:
    """What a server does when it starts, until the next hour."""

    class Through(Exception):
        """It waits for the next hour."""

    async def sleep(_: float) -> None:
        raise Through

    with pytest.MonkeyPatch.context() as patch, suppress(Through):
        patch.setattr(service, "asyncio", SimpleNamespace(sleep=sleep))
        asyncio.run(purge_expired(database, "rows", what, days))


def kept(database: Database, turn_id: str) -> tuple[bool, bool]:
    """Whether the turn is there, and whether its trace is."""
    found = database.read_blocking(lambda c: (turns.find(c, turn_id, ALL), turns.trace(c, turn_id, ALL)))
    return found[0] is not None, found[1] is not None


def test_old_traces_go_and_conversations_stay(database: Database) -> None:
    conversation = database.write_blocking(lambda c: conversations.create(c, "docs", MINE, "")).id
    keep(database, "old", 31, conversation)
    keep(database, "new", 29, conversation)
    forget(database, 30)
    assert kept(database, "old") == (True, False)
    assert kept(database, "new") == (True, True)


def test_a_turn_of_no_conversation_goes_with_its_trace_unless_it_was_rated(database: Database) -> None:
    keep(database, "alone", 31)
    keep(database, "rated", 31)
    keep(database, "recent", 1)
    database.write_blocking(lambda c: turns.rate(c, "rated", "down", "Wrong", "", ALL))
    forget(database, 30)
    assert kept(database, "alone") == (False, False)
    assert kept(database, "rated") == (True, False)
    assert kept(database, "recent") == (True, True)


def test_more_than_one_transaction_holds(database: Database) -> None:
    for n in range(AT_ONCE + 1):
        keep(database, f"turn-{n}", 2)
    forget(database, 1)
    assert database.read_blocking(lambda c: c.exec_driver_sql("SELECT count(*) FROM traces").fetchone()[0]) == 0


def test_no_days_keep_everything(database: Database) -> None:
    keep(database, "ancient", 5000)
    forget(database, 0)
    assert kept(database, "ancient") == (True, True)
