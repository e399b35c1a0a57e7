"""Older databases: each schema there ever was has a file in `schemas`, as that version left it, with rows in it.

Up to 10 their number is SQLite's `user_version`; 11 is the first that Alembic keeps (revision 0010), of which there is
a PostgreSQL dump too. Later ones are named by the revision.
"""

from __future__ import annotations

import gzip
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect
from sqlalchemy.exc import IntegrityError

from server.access import Principal
from server.store import Database, StoreError, audit, conversations, database, jobs, sessions, statistics, turns
from server.store.schema import METADATA
from tests.databases import PostgresPrograms
from tests.rows import ALL, MINE

SCHEMAS = sorted((Path(__file__).parent / "schemas").glob("*.db.gz"))
DUMPS = sorted((Path(__file__).parent / "schemas").glob("*.postgresql.sql.gz"))
NEWEST = max(path.name[:4] for path in (database.MIGRATIONS / "versions").glob("*.py"))

EXPRESSIONS = pytest.mark.filterwarnings(
    "ignore:Skipped unsupported reflection of expression-based index",
    "ignore:autogenerate skipping metadata-specified expression-based index",
)


def schema_of(connection: Connection) -> dict[str, Any]:
    """All that a database says of its tables, in an order of its own."""
    found, inspected = dict[str, Any](), inspect(connection)
    for table in (name for name in inspected.get_table_names() if not name.startswith("texts")):
        # A text that is a key is never NULL in a strict table, whether or not that was said.
        keys = inspected.get_pk_constraint(table)["constrained_columns"]
        found[table] = {
            "columns": sorted(
                (one["name"], str(one["type"]), one["name"] in keys or one["nullable"], one["default"])
                for one in inspected.get_columns(table)
            ),
            "key": keys,
            "refers": sorted(row[2:] for row in connection.exec_driver_sql(f'PRAGMA foreign_key_list("{table}")')),
            "unique": sorted(one["column_names"] for one in inspected.get_unique_constraints(table)),
            "checks": sorted(one["sqltext"] for one in inspected.get_check_constraints(table)),
            "options": inspected.get_table_options(table),
        }
    made = "SELECT name, sql FROM sqlite_master WHERE type <> 'table' AND sql IS NOT NULL OR name = 'texts'"
    for name, statement in connection.exec_driver_sql(made):
        found[name] = re.sub(r"[\s;]+", " ", statement.removesuffix("END")).strip()
    return found


def counts(connection: sqlite3.Connection) -> dict[str, int]:
    return {
        name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
        for name in METADATA.tables
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    }


def test_every_schema_has_a_file() -> None:
    assert [path.name[:2] for path in SCHEMAS] == [f"{number:02}" for number in range(1, 12)]


@pytest.mark.parametrize("old", SCHEMAS, ids=lambda path: path.name[:2])
def test_an_older_file_becomes_what_a_new_one_is_and_keeps_its_rows(old: Path, tmp_path: Path) -> None:
    path = tmp_path / "anaphora.db"
    path.write_bytes(gzip.decompress(old.read_bytes()))
    with closing(sqlite3.connect(path)) as connection:
        before = counts(connection)
    older, new = Database(path), Database(tmp_path / "new.db")
    try:
        assert older.read_blocking(schema_of) == new.read_blocking(schema_of)
        found = older.read_blocking(lambda c: conversations.detail(c, "c", ALL, whole=True))
        assert found is not None
        assert [turn.answer for turn in found.messages] == ["Ten weeks.", "Six weeks."]
        assert [turn.answer for turn in found.set_aside] == ["Five weeks."]
        assert found.messages[1].versions == ("b", "b2")
        assert found.messages[0].feedback is not None
        assert older.read_blocking(lambda c: statistics.stages(c, ALL, "", 0.0)) == {"search": [0.5], "turn": [1.25]}
        assert [one.id for one in older.read_blocking(lambda c: conversations.search(c, "fathers SIX", 5, 0, ALL))]
        assert older.read_blocking(audit.verify).problem == ""
        who = older.read_blocking(sessions.listing)
        assert [principal.id for principal, _ in who] == (["key:12345678"] if old.name >= "03" else [])
    finally:
        older.close()
        new.close()
    with closing(sqlite3.connect(path)) as connection:
        after = counts(connection)
    # Sessions of before there were principals ended with that change.
    assert {name: after[name] for name in before if name != "sessions"} == {
        name: count for name, count in before.items() if name != "sessions"
    }


def differences(connection: Connection) -> list[object]:
    """Between a database's tables and what `schema.py` says of them."""

    def ours(name: str | None, kind: str, _: object) -> bool:
        # The searched texts and their indexes are of one kind of database alone.
        return not str(name).startswith("texts") and name not in ("turns_by_text", "conversations_by_title")

    found: list[object] = compare_metadata(
        MigrationContext.configure(connection, opts={"include_name": ours}), METADATA
    )
    return found


@EXPRESSIONS
@pytest.mark.parametrize("old", DUMPS, ids=lambda path: path.name[:4])
def test_an_older_database_of_a_server_becomes_what_a_new_one_is_and_keeps_its_rows(
    old: Path, postgres: PostgresPrograms
) -> None:
    name = f"old{old.name[:4]}"
    postgres.execute(f"CREATE DATABASE {name}")
    postgres.execute(gzip.decompress(old.read_bytes()).decode(), name)
    older = Database(postgres.url(name))
    try:
        assert older.read_blocking(differences) == []
        found = older.read_blocking(lambda c: conversations.search(c, "fathers SIX", 5, 0, ALL))
        assert [one.turns for one in found] == [2]
        assert [one.id for one in older.read_blocking(lambda c: jobs.listing(c, None, ALL))] == ["j"]
        assert older.read_blocking(audit.verify).n == 3
        with pytest.raises(IntegrityError, match="only added to"):
            older.write_blocking(lambda c: c.exec_driver_sql("DELETE FROM audit"))
    finally:
        older.close()
    postgres.execute(f"DROP DATABASE {name}")


@EXPRESSIONS
def test_a_new_database_is_what_the_tables_say(place: Path | str) -> None:
    made = Database(place)
    found = made.read_blocking(differences)
    made.close()
    assert found == []


@pytest.fixture
def with_one_more(tmp_path: Path) -> Path:
    """The revisions as a later version has them."""
    folder = tmp_path / "migrations"
    shutil.copytree(database.MIGRATIONS, folder)
    (folder / "versions" / "0099_later.py").write_text(
        f"import sqlalchemy as sa\nfrom alembic import op\nrevision = '0099'\ndown_revision = {NEWEST!r}\n"
        "def upgrade():\n    op.add_column('conversations', sa.Column('colour', sa.Text))\n"
        "    op.execute(\"UPDATE conversations SET colour = 'red'\")\n",
        "utf-8",
    )
    return folder


def test_a_later_revision_changes_what_is_there_and_an_older_version_refuses_it(
    place: Path | str, with_one_more: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Database(place)
    made = first.write_blocking(lambda c: conversations.create(c, "docs", MINE, "Kettles"))
    first.close()
    with monkeypatch.context() as later:
        later.setattr(database, "MIGRATIONS", with_one_more)
        for _ in range(2):
            second = Database(place)
            rows = second.read_blocking(lambda c: c.exec_driver_sql("SELECT id, colour FROM conversations").all())
            second.close()
            assert [tuple(row) for row in rows] == [(made.id, "red")]
    with pytest.raises(StoreError, match="newer Anaphora"):
        Database(place)


def test_a_revision_that_fails_changes_nothing(
    place: Path | str, with_one_more: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Database(place).close()
    script = with_one_more / "versions" / "0099_later.py"
    script.write_text(script.read_text("utf-8") + "    op.execute('SELECT nothing FROM nowhere')\n", "utf-8")
    with monkeypatch.context() as later:
        later.setattr(database, "MIGRATIONS", with_one_more)
        with pytest.raises(StoreError):
            Database(place)
    again = Database(place)
    owner = Principal("key:x", "x", "operator", frozenset({"*"}))
    assert again.write_blocking(lambda c: conversations.create(c, "docs", MINE, "Works")).title == "Works"
    assert again.read_blocking(lambda c: turns.owner(c, owner.id, ALL)) is None
    again.close()
