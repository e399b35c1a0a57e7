"""The audit log as rows that are only ever added: each carries a hash of itself and of the one before.

Triggers refuse to change a row, or to delete one that `trim` has not cut off. Who can write to the file can drop the
triggers; then the chain no longer fits, or its head is not the one that was noted elsewhere. What is worth a row is
`server.access.audit`'s business.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from server.store.records import AuditRecord

_FIELDS = "at, principal, action, about, collection, group_name, origin, outcome, detail"


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """What is to be written: `principal` and `about` are ids, `detail` holds what JSON can say."""

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
    """What `verify` found: rows that are there, the last one's number and hash, and what is wrong, if anything."""

    rows: int
    n: int
    chain: str
    problem: str = ""


def append(connection: sqlite3.Connection, *entries: AuditEntry) -> None:
    """Add rows; within a transaction, so that no two follow the same one."""
    n, chain = _head(connection)
    for entry in entries:
        n += 1
        detail = json.dumps(entry.detail, ensure_ascii=False, sort_keys=True, default=str)
        values = (entry.at, entry.principal, entry.action, entry.about, entry.collection, entry.group)
        row = (*values, entry.origin, entry.outcome, detail)
        chain = _link(chain, n, row)
        connection.execute(
            f"INSERT INTO audit (n, {_FIELDS}, chain) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (n, *row, chain)
        )


def listing(
    connection: sqlite3.Connection,
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
    wanted = ["n > ?", "at >= ?"]
    values: list[object] = [after, since]
    for condition, value in (("at < ?", until), ("principal = ?", principal), ("action = ?", action)):
        if value not in (None, ""):
            wanted.append(condition)
            values.append(value)
    if groups is not None:
        wanted.append("group_name IN (SELECT value FROM json_each(?))")
        values.append(json.dumps(sorted(groups)))
    order = "DESC" if newest else "ASC"
    rows = connection.execute(
        f"SELECT n, {_FIELDS}, chain FROM audit WHERE {' AND '.join(wanted)} ORDER BY n {order} LIMIT ?",
        (*values, limit),
    )
    return [_record(row) for row in rows]


def trim(connection: sqlite3.Connection, before: float, limit: int, by: str = "server", origin: str = "") -> int:
    """Delete at most `limit` rows from before a time, the oldest, and say so in a row; how many they were.

    Only from the beginning on, so that what stays is one chain.
    """
    anchor = _anchor(connection)[0]
    newer = connection.execute("SELECT min(n) FROM audit WHERE at >= ?", (before,)).fetchone()[0]
    last = min(anchor + limit, _head(connection)[0] if newer is None else newer - 1)
    if last <= anchor:
        return 0
    (chain,) = connection.execute("SELECT chain FROM audit WHERE n = ?", (last,)).fetchone()
    connection.execute("UPDATE audit_anchor SET n = ?, chain = ?", (last, chain))
    connection.execute("DELETE FROM audit WHERE n <= ?", (last,))
    append(connection, AuditEntry(by, "log.trim", origin=origin, detail={"rows": last - anchor, "up_to": last}))
    return last - anchor


def verify(connection: sqlite3.Connection) -> ChainReport:
    """Read every row and compare its hash; stops at the first that does not fit."""
    n, chain = _anchor(connection)
    rows = 0
    for row in connection.execute(f"SELECT n, {_FIELDS}, chain FROM audit ORDER BY n"):
        number, *values, kept = tuple(row)
        if number != n + 1:
            return ChainReport(rows, n, chain, f"Rows {n + 1} to {number - 1} are missing.")
        if kept != _link(chain, number, values):
            return ChainReport(rows, n, chain, f"Row {number} is not as it was written, or follows another one.")
        n, chain, rows = number, kept, rows + 1
    return ChainReport(rows, n, chain)


def chain_at(connection: sqlite3.Connection, n: int) -> str:
    """The hash of row `n`, empty where that row is not there."""
    row = connection.execute("SELECT chain FROM audit WHERE n = ?", (n,)).fetchone()
    return row["chain"] if row else ""


def _anchor(connection: sqlite3.Connection) -> tuple[int, str]:
    n, chain = connection.execute("SELECT n, chain FROM audit_anchor").fetchone()
    return n, chain


def _head(connection: sqlite3.Connection) -> tuple[int, str]:
    row = connection.execute("SELECT n, chain FROM audit ORDER BY n DESC LIMIT 1").fetchone()
    return (row["n"], row["chain"]) if row else _anchor(connection)


def _link(chain: str, n: int, row: Iterable[object]) -> str:
    return hashlib.sha256(json.dumps([chain, n, *row]).encode()).hexdigest()


def _record(row: sqlite3.Row) -> AuditRecord:
    values = {name: row[name] for name in row.keys() if name not in ("group_name", "detail")}  # noqa: SIM118
    return AuditRecord(**values, group=row["group_name"], detail=json.loads(row["detail"]))
