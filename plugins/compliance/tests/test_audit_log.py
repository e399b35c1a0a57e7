"""The audit log: rows are only added, fit together, survive a kill, and are cut off at the beginning alone."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from plugins.compliance import audit_log
from server.access import LOCAL, AuditEntry, Principal, account, entry, note
from server.store import Database
from testing.plugin import PluginContract

ANN = Principal("key:11111111", "ann", "operator", frozenset({"support"}), "192.0.2.7")


def fill(database: Database, rows: int) -> None:
    """Rows written at second 1, 2, 3 …"""
    entries = [AuditEntry("local", "turn.ask", f"turn-{n}", at=float(n)) for n in range(1, rows + 1)]
    database.write_blocking(lambda c: audit_log.append(c, *entries))


def test_a_row_says_who_did_what_when_and_from_where(database: Database) -> None:
    row_entry = entry(ANN, "key.create", "22222222", group="support", detail={"role": "reader"})
    database.write_blocking(lambda c: audit_log.append(c, row_entry))
    (row,) = database.read_blocking(audit_log.listing)
    assert (row.n, row.principal, row.action, row.about) == (1, "key:11111111", "key.create", "22222222")
    assert (row.origin, row.group, row.outcome, row.detail) == ("192.0.2.7", "support", "done", {"role": "reader"})
    assert row.at == row_entry.at
    assert len(row.chain) == 64


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit SET principal = 'nobody' WHERE n = 2",
        "DELETE FROM audit WHERE n = 2",
        "DELETE FROM audit",
        "UPDATE audit_anchor SET n = 0",
        "DELETE FROM audit_anchor",
    ],
)
def test_rows_can_be_neither_changed_nor_deleted(statement: str, database: Database) -> None:
    fill(database, 3)
    with pytest.raises(IntegrityError, match="only added to"):
        database.write_blocking(lambda c: c.exec_driver_sql(statement))
    assert len(database.read_blocking(audit_log.listing)) == 3


def test_rows_are_found_by_time_principal_and_action(database: Database) -> None:
    entries = [
        AuditEntry("local", "key.create", at=1.0),
        AuditEntry("key:a", "turn.ask", group="support", at=2.0),
        AuditEntry("key:b", "turn.ask", group="sales", at=3.0),
    ]
    database.write_blocking(lambda c: audit_log.append(c, *entries))

    def found(**wanted: object) -> list[int]:
        return [row.n for row in database.read_blocking(lambda c: audit_log.listing(c, **wanted))]  # type: ignore[arg-type]

    assert found() == [1, 2, 3]
    assert found(newest=True, limit=2) == [3, 2]
    assert found(since=2.0) == [2, 3]
    assert found(principal="key:a") == [2]
    assert found(action="turn.ask") == [2, 3]


def tampered(statement: str) -> Callable[[Connection], object]:
    """Somebody who can write to the file, and has dropped the triggers first."""

    def write(connection: Connection) -> None:
        for trigger in ("audit_unchanged", "audit_kept", "audit_anchor_kept", "audit_anchor_forward"):
            table = "audit_anchor" if "anchor" in trigger else "audit"
            on = f" ON {table}" if connection.dialect.name == "postgresql" else ""
            connection.exec_driver_sql(f"DROP TRIGGER {trigger}{on}")
        connection.exec_driver_sql(statement)

    return write


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE audit SET principal = 'nobody' WHERE n = 2", "Row 2 is not as it was written"),
        ("UPDATE audit SET at = at + 1 WHERE n = 4", "Row 4 is not"),
        ("DELETE FROM audit WHERE n = 2", "Rows 2 to 2 are missing"),
        ("DELETE FROM audit WHERE n <= 2", "Rows 1 to 2 are missing"),
        ("INSERT INTO audit (n, at, principal, action) VALUES (5, 1, 'x', 'y')", "Row 5 is not"),
    ],
)
def test_what_was_tampered_with_no_longer_fits(statement: str, problem: str, database: Database) -> None:
    fill(database, 4)
    assert database.read_blocking(audit_log.verify).problem == ""
    database.write_blocking(tampered(statement))
    assert problem in database.read_blocking(audit_log.verify).problem


def test_a_beginning_is_cut_off_and_the_rest_still_fits(database: Database) -> None:
    fill(database, 10)
    assert database.write_blocking(lambda c: audit_log.trim(c, 6.0, 3)) == 3
    assert database.write_blocking(lambda c: audit_log.trim(c, 6.0, 3)) == 2
    assert database.write_blocking(lambda c: audit_log.trim(c, 6.0, 3)) == 0
    rows = database.read_blocking(audit_log.listing)
    assert [row.about for row in rows[:5]] == [f"turn-{n}" for n in range(6, 11)]
    assert [(row.action, row.detail) for row in rows[5:]] == [
        ("log.trim", {"rows": 3, "up_to": 3}),
        ("log.trim", {"rows": 2, "up_to": 5}),
    ]
    report = database.read_blocking(audit_log.verify)
    assert (report.rows, report.n, report.problem) == (7, 12, "")
    assert database.read_blocking(lambda c: audit_log.chain_at(c, 12)) == report.chain


def test_the_chain_goes_on_after_every_row_was_cut_off(database: Database) -> None:
    fill(database, 3)
    database.write_blocking(lambda c: audit_log.trim(c, 9e9, 100))
    fill(database, 1)
    report = database.read_blocking(audit_log.verify)
    assert (report.rows, report.n, report.problem) == (2, 5, "")


def test_what_was_noted_is_there_once_the_database_is_closed(place: Path | str) -> None:
    database = Database(place)
    for n in range(200):
        note(database, ANN, "turn.ask", f"turn-{n}")
    database.close()
    again = Database(place)
    assert [row.about for row in again.read_blocking(lambda c: audit_log.listing(c, limit=500))] == [
        f"turn-{n}" for n in range(200)
    ]
    again.close()


_KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from server.access import LOCAL
from server.access import account, entry, note
from server.store import Database

async def main():
    database = Database(Path(sys.argv[1]))
    for n in range(5):
        note(database, LOCAL, "turn.ask")
        await database.write(account, entry(LOCAL, "grant.add", str(n)))
        print(n, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def test_an_act_that_was_answered_outlives_a_kill(tmp_path: Path) -> None:
    file = tmp_path / "anaphora.db"
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(file)], capture_output=True, text=True, timeout=180)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    database = Database(file)
    acts = [row.about for row in database.read_blocking(lambda c: audit_log.listing(c, action="grant.add"))]
    assert acts == killed.stdout.split() == ["0", "1", "2", "3", "4"]
    assert database.read_blocking(audit_log.verify).problem == ""
    database.close()


def test_rows_of_two_processes_follow_one_another(place: Path | str) -> None:
    first, other = Database(place), Database(place)
    for _ in range(20):
        for database in (first, other):
            database.write_later(lambda c: audit_log.append(c, AuditEntry("local", "key.create")))
    for database in (first, other):
        database.write_blocking(lambda c: audit_log.append(c, AuditEntry("local", "key.create")))
    assert first.read_blocking(audit_log.verify).n == 42
    assert first.read_blocking(audit_log.verify).problem == ""
    first.close()
    other.close()


class TestCompliance(PluginContract):
    name = "compliance"

    def test_without_it_nothing_is_audited_and_nothing_breaks(self, removed: None, tmp_path: Path) -> None:
        database = Database(tmp_path / "anaphora.db")
        note(database, LOCAL, "turn.ask")
        database.write_blocking(account, entry(LOCAL, "grant.add", "sales"))
        tables = "SELECT count(*) FROM sqlite_master WHERE name LIKE 'audit%'"
        assert database.read_blocking(lambda c: c.exec_driver_sql(tables).scalar_one()) == 0
        database.close()
