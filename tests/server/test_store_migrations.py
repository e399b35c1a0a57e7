"""Revisions of the schema: a new database is what the tables say, and later revisions change what is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection

from server.access import Principal
from server.store import Database, StoreError, conversations, turns
from server.store.database import find_damage
from server.store.schema import METADATA, REVISIONS
from tests.rows import ALL, MINE

EXPRESSIONS = pytest.mark.filterwarnings(
    "ignore:Skipped unsupported reflection of expression-based index",
    "ignore:autogenerate skipping metadata-specified expression-based index",
)


def differences(connection: Connection) -> list[object]:
    """Between a database's tables and what `schema.py` says of them."""

    def ours(name: str | None, kind: str, _: object) -> bool:
        # The searched texts and their indexes are of one kind of database alone.
        if kind == "table":
            return name in METADATA.tables  # neither the searched texts, nor those of plugins
        return name not in ("turns_by_text", "conversations_by_title")

    found: list[object] = compare_metadata(
        MigrationContext.configure(connection, opts={"include_name": ours}), METADATA
    )
    return found


@EXPRESSIONS
def test_a_new_database_is_what_the_tables_say(place: Path | str) -> None:
    made = Database(place)
    found = made.read_blocking(differences)
    made.close()
    assert found == []


def redden(op: Operations) -> None:
    """A revision of a later version."""
    op.add_column("conversations", sa.Column("colour", sa.Text))
    op.execute("UPDATE conversations SET colour = 'red'")


def fail(op: Operations) -> None:
    """A revision that fails midway."""
    redden(op)
    op.execute("SELECT nothing FROM nowhere")


def test_a_later_revision_changes_what_is_there_and_an_older_version_refuses_it(
    place: Path | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Database(place)
    made = first.write_blocking(lambda c: conversations.create(c, "docs", MINE, "Kettles"))
    first.close()
    with monkeypatch.context() as later:
        later.setitem(REVISIONS, "0099", redden)
        for _ in range(2):
            second = Database(place)
            rows = second.read_blocking(lambda c: c.exec_driver_sql("SELECT id, colour FROM conversations").all())
            second.close()
            assert [tuple(row) for row in rows] == [(made.id, "red")]
    with pytest.raises(StoreError, match="newer Anaphora"):
        Database(place)


@EXPRESSIONS
def test_an_older_database_gets_what_it_lacks(place: Path | str) -> None:
    def older(connection: Connection) -> None:
        Operations(MigrationContext.configure(connection)).drop_column("turns", "opened")
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0006'")

    first = Database(place)
    first.write_blocking(older)
    assert first.read_blocking(differences) != []
    first.close()
    for _ in range(2):
        again = Database(place)
        assert again.read_blocking(differences) == []
        again.close()


KILLED = """
import sys
from pathlib import Path

from server.store import Database
from server.store.schema import REVISIONS


def redden(op):
    op.execute("UPDATE conversations SET title = 'red'")
    print("in the middle", flush=True)
    sys.stdin.read()


REVISIONS["0099"] = redden
Database(Path(sys.argv[1]))
"""


@pytest.mark.extended
def test_a_killed_migration_changes_nothing_and_the_next_one_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def titles(connection: Connection) -> list[str]:
        return [row[0] for row in connection.exec_driver_sql("SELECT title FROM conversations ORDER BY title")]

    path = tmp_path / "old.db"
    first = Database(path)
    for title in ("Kettles", "Lamps"):
        first.write_blocking(lambda c, title=title: conversations.create(c, "docs", MINE, title))
    first.close()
    for _ in range(2):
        command = [sys.executable, "-c", KILLED, str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "in the middle\n"
            process.kill()
        again = Database(path)
        assert again.read_blocking(titles) == ["Kettles", "Lamps"]
        again.close()
    monkeypatch.setitem(REVISIONS, "0099", redden)
    last = Database(path)
    rows = last.read_blocking(
        lambda c: c.exec_driver_sql("SELECT title, colour FROM conversations ORDER BY title").all()
    )
    last.close()
    assert [tuple(row) for row in rows] == [("Kettles", "red"), ("Lamps", "red")]
    assert find_damage(path) == ""


def test_a_revision_that_fails_changes_nothing(place: Path | str, monkeypatch: pytest.MonkeyPatch) -> None:
    Database(place).close()
    with monkeypatch.context() as later:
        later.setitem(REVISIONS, "0099", fail)
        with pytest.raises(StoreError):
            Database(place)
    again = Database(place)
    owner = Principal("key:x", "x", "operator", frozenset({"*"}))
    assert again.write_blocking(lambda c: conversations.create(c, "docs", MINE, "Works")).title == "Works"
    assert again.read_blocking(lambda c: turns.owner(c, owner.id, ALL)) is None
    again.close()
