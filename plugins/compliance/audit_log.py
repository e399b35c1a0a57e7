"""The audit log: rows that are only ever added; each carries a hash of itself and of the row before.

Triggers refuse to change a row, or to delete one that `trim` has not cut off. Anybody who can write to the file can
drop the triggers; then the chain no longer matches, or its head differs from the one noted elsewhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict
from sqlalchemy import (
    CheckConstraint,
    Column,
    Connection,
    Index,
    MetaData,
    Table,
    Text,
    delete,
    func,
    insert,
    inspect,
    select,
    update,
)

from server.access import AuditEntry
from server.store.records import StoreError
from server.store.schema import NUMBER, SECONDS, TableGroup

if TYPE_CHECKING:
    from server.chat import ChatService
    from server.installation import Finding
    from server.settings import Settings

_METADATA = MetaData()
_FIELDS = ("at", "principal", "action", "about", "collection", "group_name", "origin", "outcome", "detail")
"""The fields that a row's hash covers, in this order."""

AUDIT = Table(
    "audit",
    _METADATA,
    Column("n", NUMBER, primary_key=True, autoincrement=False),
    Column("at", SECONDS, nullable=False),
    *(Column(name, Text, nullable=False, server_default="") for name in (*_FIELDS[1:7], "chain")),
    Column("outcome", Text, nullable=False, server_default="done"),
    Column("detail", Text, nullable=False, server_default="{}"),
    sqlite_strict=True,
)
Index("audit_by_time", AUDIT.c.at)
AUDIT_ANCHOR = Table(
    "audit_anchor",
    _METADATA,
    Column("id", NUMBER, primary_key=True, autoincrement=False),
    Column("n", NUMBER, nullable=False),
    Column("chain", Text, nullable=False),
    CheckConstraint("id = 0"),
    sqlite_strict=True,
)
"""The last row that was cut off: the log can be deleted up to it and no further, and the chain begins there."""

TABLES = TableGroup(_METADATA, Path(__file__).parent, frozenset({AUDIT_ANCHOR.name}))

_ROWS = select(*AUDIT.c["n", *_FIELDS, "chain"])
_ADD = insert(AUDIT)
_LAST = select(*AUDIT.c["n", "chain"]).order_by(AUDIT.c.n.desc()).limit(1)


class AuditRecord(BaseModel):
    """A row of the audit log: who (a principal's id) did what, to what (`about`, an id), from where, with what outcome.

    `chain` is the SHA-256 of the row and of the one before.
    """

    model_config = ConfigDict(frozen=True)

    n: int
    at: float
    principal: str
    action: str
    about: str
    collection: str
    group: str
    origin: str
    outcome: str
    detail: dict[str, object]
    chain: str


@dataclass(frozen=True, slots=True)
class ChainReport:
    """Result of `verify`: the number of rows, the last one's number and hash, and the defect, if any."""

    rows: int
    n: int
    chain: str
    problem: str = ""


def append(connection: Connection, *entries: AuditEntry) -> None:
    """Add rows; within a transaction, so that no two follow the same one."""
    n, chain = _head(connection)
    for entry in entries:
        n += 1
        detail = json.dumps(entry.detail, ensure_ascii=False, sort_keys=True, default=str)
        values = (entry.at, entry.principal, entry.action, entry.about, entry.collection, entry.group)
        row = (*values, entry.origin, entry.outcome, detail)
        chain = _link(chain, n, row)
        connection.execute(_ADD, {"n": n, **dict(zip(_FIELDS, row, strict=True)), "chain": chain})


def listing(
    connection: Connection,
    *,
    since: float = 0.0,
    principal: str = "",
    action: str = "",
    limit: int | None = 100,
    newest: bool = False,
) -> list[AuditRecord]:
    """Return rows, oldest first, or the newest ones first."""
    wanted = [AUDIT.c.at >= since]
    if principal:
        wanted.append(AUDIT.c.principal == principal)
    if action:
        wanted.append(AUDIT.c.action == action)
    order = AUDIT.c.n.desc() if newest else AUDIT.c.n
    rows = connection.execute(_ROWS.where(*wanted).order_by(order).limit(limit)).mappings()
    return [AuditRecord(**{**row, "detail": json.loads(row["detail"])}, group=row["group_name"]) for row in rows]


def trim(connection: Connection, before: float, limit: int) -> int:
    """Delete at most `limit` rows from before a time and record that as a row; return their number.

    Only the oldest go, so that what stays is one chain.
    """
    anchor = _anchor(connection)[0]
    newer = connection.scalar(select(func.min(AUDIT.c.n)).where(AUDIT.c.at >= before))
    last = min(anchor + limit, _head(connection)[0] if newer is None else newer - 1)
    if last <= anchor:
        return 0
    connection.execute(update(AUDIT_ANCHOR).values(n=last, chain=chain_at(connection, last)))
    connection.execute(delete(AUDIT).where(AUDIT.c.n <= last))
    append(connection, AuditEntry("server", "log.trim", detail={"rows": last - anchor, "up_to": last}))
    return last - anchor


def verify(connection: Connection) -> ChainReport:
    """Read every row and compare its hash; stop at the first that does not fit."""
    n, chain = _anchor(connection)
    rows = 0
    with connection.execute(_ROWS.order_by(AUDIT.c.n), execution_options={"yield_per": 1000}) as entries:
        for number, *values, row_hash in entries:
            if number != n + 1:
                return ChainReport(rows, n, chain, f"Rows {n + 1} to {number - 1} are missing.")
            if row_hash != _link(chain, number, values):
                return ChainReport(rows, n, chain, f"Row {number} is not as it was written, or follows another one.")
            n, chain, rows = number, row_hash, rows + 1
    return ChainReport(rows, n, chain)


def chain_at(connection: Connection, n: int) -> str:
    """Return the hash of row `n`; empty where there is no such row."""
    return connection.scalar(select(AUDIT.c.chain).where(AUDIT.c.n == n)) or ""


def _anchor(connection: Connection) -> tuple[int, str]:
    n, chain = connection.execute(select(*AUDIT_ANCHOR.c["n", "chain"])).one()
    return n, chain


def _head(connection: Connection) -> tuple[int, str]:
    row = connection.execute(_LAST).first()
    return (row.n, row.chain) if row else _anchor(connection)


def _link(chain: str, n: int, row: Iterable[Any]) -> str:
    return hashlib.sha256(json.dumps([chain, n, *row]).encode()).hexdigest()


async def trim_expired(service: ChatService) -> None:
    """Delete rows older than `plugins.compliance.days`, now and every hour."""
    from plugins.compliance import ComplianceSettings
    from server.chat.service import purge_expired

    days = service.core.settings.of(ComplianceSettings).days
    await purge_expired(service.core.database, "rows of the audit log", trim, days)


def check_chain(settings: Settings) -> Iterator[Finding]:
    """Check that the audit log is as it was written."""
    from server.installation import Finding
    from server.store.database import read_only

    place = settings.database_at
    if isinstance(place, Path) and not place.exists():
        return
    try:
        # Read only: an older database is not brought up to date here, and an empty one not made.
        with read_only(place) as connection:
            if not inspect(connection).has_table(AUDIT.name):
                return
            report = verify(connection)
    except StoreError:
        return  # reported by the check of the database
    if report.problem:
        remedy = "Somebody changed the database. Compare with a backup or an export."
        yield Finding("audit log", "fail", report.problem, remedy)
    elif report.rows:
        yield Finding("audit log", "ok", f"{report.rows:,} rows, unchanged up to row {report.n}")
