"""The table of conversations that were handed over: their texts are kept until they have arrived."""

from __future__ import annotations

import time
from collections.abc import Mapping

from pydantic import Field
from sqlalchemy import Column, Connection, Index, MetaData, Row, Table, Text, and_, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.sql.elements import ColumnElement

from server.access import Ownership, Principal
from server.store.records import View
from server.store.schema import NUMBER, SECONDS, TableGroup, visible

LEASE = 300.0
"""Seconds for which a delivery belongs to the server that tries it."""
LONGEST = 3600.0
"""Seconds between two tries at most."""

_METADATA = MetaData()

HANDOFFS = Table(
    "handoffs",
    _METADATA,
    Column("id", Text, primary_key=True),
    Column("turn_id", Text, nullable=False, unique=True),
    *(Column(name, Text, nullable=False) for name in ("collection", "owner", "group_name", "reason", "content")),
    *(Column(name, Text, nullable=False, server_default="") for name in ("reference", "problem")),
    Column("tries", NUMBER, nullable=False),
    *(Column(name, SECONDS, nullable=False) for name in ("created", "due")),
    Column("delivered", SECONDS),
    sqlite_strict=True,
)
Index("handoffs_by_due", HANDOFFS.c.due)

TABLES = TableGroup(_METADATA, erased=(HANDOFFS,))

_WAITS: ColumnElement[bool] = HANDOFFS.c.delivered.is_(None)


class HandoffRecord(View):
    """How a hand-off stands. Times are in seconds since the epoch."""

    id: str
    turn_id: str
    collection: str
    reason: str = Field(description="Why it was offered: refused, doubted, asked; empty where it was not.")
    created: float
    delivered: float | None = Field(description="When it arrived; null while it waits.")
    reference: str = Field(description="What it is called where it arrived, such as an issue's address.")
    tries: int
    problem: str = Field(description="Why the last try failed.")


def add(connection: Connection, belongs: Ownership, row: Mapping[str, str]) -> bool:
    """Keep a row (`id`, `turn_id`, `collection`, `reason`, `content`), whose delivery is due now.

    Return False where the turn was handed over already.
    """
    row, now = {**row, "owner": belongs.owner, "group_name": belongs.group}, time.time()
    try:
        with connection.begin_nested():
            connection.execute(insert(HANDOFFS), {**row, "tries": 0, "created": now, "due": now})
    except IntegrityError:
        return False
    return True


def listing(connection: Connection, who: Principal, limit: int) -> list[HandoffRecord]:
    """Return the newest that `who` sees, newest first."""
    wanted = select(HANDOFFS).where(visible(HANDOFFS, who)).order_by(HANDOFFS.c.created.desc(), HANDOFFS.c.id)
    return [HandoffRecord.model_validate(row) for row in connection.execute(wanted.limit(limit))]


def is_over(connection: Connection, turn_id: str) -> bool:
    """Whether a turn was handed over."""
    return connection.scalar(select(HANDOFFS.c.id).where(HANDOFFS.c.turn_id == turn_id)) is not None


def claim(connection: Connection, now: float) -> Row[tuple[str, str, int]] | None:
    """Take the delivery that is due first: no other server tries it meanwhile."""
    its = select(*HANDOFFS.c["id", "content", "tries"]).where(_WAITS, HANDOFFS.c.due <= now)
    row = connection.execute(its.order_by(HANDOFFS.c.due).limit(1)).first()
    if row is None:
        return None
    claimed = update(HANDOFFS).where(and_(HANDOFFS.c.id == row.id, _WAITS, HANDOFFS.c.due <= now))
    return row if connection.execute(claimed.values(due=now + LEASE, tries=row.tries + 1)).rowcount else None


def arrived(connection: Connection, handoff_id: str, reference: str) -> None:
    """Note that it has arrived, and forget its texts."""
    values = {"delivered": time.time(), "reference": reference, "problem": "", "content": ""}
    connection.execute(update(HANDOFFS).where(HANDOFFS.c.id == handoff_id).values(values))


def failed(connection: Connection, handoff_id: str, tries: int, problem: str) -> None:
    """Note why a try failed, and try again later: after seconds first, after an hour in the end."""
    values = {"due": time.time() + min(LONGEST, 5.0 * 2 ** min(tries, 10)), "problem": problem}
    connection.execute(update(HANDOFFS).where(HANDOFFS.c.id == handoff_id).values(values))
