"""The audit log as rows that are only ever added: each carries a hash of itself and of the one before.

Triggers refuse to change a row, or to delete one that `trim` has not cut off. Anybody who can write to the file can
drop the triggers; then the chain no longer matches, or its head differs from the one noted elsewhere.
`server.audit_log` decides which acts are recorded.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from sqlalchemy import Connection, delete, func, insert, select, update

from server.store.records import AuditRecord
from server.store.schema import AUDIT, AUDIT_ANCHOR

_FIELDS = ("at", "principal", "action", "about", "collection", "group_name", "origin", "outcome", "detail")
"""What a row's hash is of, in this order."""
_ROWS = select(*AUDIT.c["n", *_FIELDS, "chain"])
_ADD = insert(AUDIT)
_LAST = select(*AUDIT.c["n", "chain"]).order_by(AUDIT.c.n.desc()).limit(1)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An entry to append: `principal` and `about` are ids, `detail` holds what JSON can say."""

    principal: str
    action: str
    about: str = ""
    collection: str = ""
    group: str = ""
    origin: str = ""
    outcome: str = "done"
    detail: dict[str, object] = field(default_factory=dict)
    at: float = field(default_factory=time.time)


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
    until: float | None = None,
    principal: str = "",
    action: str = "",
    groups: Collection[str] | None = None,
    after: int = 0,
    limit: int = 100,
    newest: bool = False,
) -> list[AuditRecord]:
    """Rows after number `after`, oldest first, or the newest ones first; `groups` None takes those of every group."""
    wanted = [AUDIT.c.n > after, AUDIT.c.at >= since]
    if until is not None:
        wanted.append(AUDIT.c.at < until)
    if principal:
        wanted.append(AUDIT.c.principal == principal)
    if action:
        wanted.append(AUDIT.c.action == action)
    if groups is not None:
        wanted.append(AUDIT.c.group_name.in_(groups))
    order = AUDIT.c.n.desc() if newest else AUDIT.c.n
    rows = connection.execute(_ROWS.where(*wanted).order_by(order).limit(limit)).mappings()
    return [AuditRecord(**{**row, "detail": json.loads(row["detail"])}, group=row["group_name"]) for row in rows]


def trim(connection: Connection, before: float, limit: int, by: str = "server", origin: str = "") -> int:
    """Delete at most `limit` rows from before a time, the oldest, and say so in a row; how many they were.

    Only from the beginning on, so that what stays is one chain.
    """
    anchor = _anchor(connection)[0]
    newer = connection.scalar(select(func.min(AUDIT.c.n)).where(AUDIT.c.at >= before))
    last = min(anchor + limit, _head(connection)[0] if newer is None else newer - 1)
    if last <= anchor:
        return 0
    connection.execute(update(AUDIT_ANCHOR).values(n=last, chain=chain_at(connection, last)))
    connection.execute(delete(AUDIT).where(AUDIT.c.n <= last))
    append(connection, AuditEntry(by, "log.trim", origin=origin, detail={"rows": last - anchor, "up_to": last}))
    return last - anchor


def verify(connection: Connection) -> ChainReport:
    """Read every row and compare its hash; stops at the first that does not fit."""
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
    """The hash of row `n`, empty where that row is not there."""
    return connection.scalar(select(AUDIT.c.chain).where(AUDIT.c.n == n)) or ""


def _anchor(connection: Connection) -> tuple[int, str]:
    n, chain = connection.execute(select(*AUDIT_ANCHOR.c["n", "chain"])).one()
    return n, chain


def _head(connection: Connection) -> tuple[int, str]:
    row = connection.execute(_LAST).first()
    return (row.n, row.chain) if row else _anchor(connection)


def _link(chain: str, n: int, row: Iterable[object]) -> str:
    return hashlib.sha256(json.dumps([chain, n, *row]).encode()).hexdigest()
