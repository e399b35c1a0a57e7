"""Scale: several servers and machines share a database, counters and the work of indexing.

PostgreSQL (`database.url`), Redis (`limits.store`) and Ray (`anaphora index --on ray`) are found by the entry points
`anaphora.databases`, `anaphora.counters` and `anaphora.workers`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cli.shared.state import state_of
from server.plugins import Plugin, parts

if TYPE_CHECKING:
    from sqlalchemy import Connection


plugin = Plugin(
    name="scale",
    summary="Share PostgreSQL, Redis and Ray among several servers.",
    commands={"move": "plugins.scale:app"},
)


app = typer.Typer()

ROWS = 500
"""Written at once."""


def copy_database(file: Path, url: str) -> int:
    """Copy a file, which is brought up to date first, into an empty database; how many rows there were.

    Raises StoreError, and has written nothing then.
    """
    from sqlalchemy import func, insert, select, text, update

    from server.store import Database, StoreError
    from server.store.database import read_only
    from server.store.schema import all_tables

    if not file.exists():
        raise StoreError(f"There is no database {file} to copy.")
    Database(file).close()
    target = Database(url)

    def copy(connection: Connection) -> int:
        seeded = {name for group in parts("tables") for name in group.seeded}
        tables, copied = [table for table in all_tables() if table.name not in seeded], 0
        if used := [table.name for table in tables if connection.execute(select(table).limit(1)).first()]:
            raise StoreError(f"The database {target.kind.name} is not empty: there are {', '.join(used)}.")
        with read_only(file) as source:
            for table in tables:
                rows = source.execute(select(table).order_by(*table.primary_key)).mappings()
                for part in rows.partitions(ROWS):
                    connection.execute(insert(table), [dict(row) for row in part])
                    copied += len(part)
                if (number := table.autoincrement_column) is not None:
                    last = func.max(number)
                    counter = func.pg_get_serial_sequence(table.name, number.name)
                    connection.execute(select(func.setval(counter, last)).where(text("true")).select_from(table))
            for table in (table for table in all_tables() if table.name in seeded):
                row = source.execute(select(table)).mappings().one()
                if row != connection.execute(select(table)).mappings().one():
                    connection.execute(update(table).values(dict(row)))
        return copied

    try:
        return target.write_blocking(copy)
    finally:
        target.close()


@app.callback(invoke_without_command=True)
def move(context: typer.Context) -> None:
    """Copy the home's SQLite database into the empty PostgreSQL one of database.url. No server may run on either."""
    from server.store import StoreError
    from server.store.database import write_down
    from server.store.home import hold_home

    state = state_of(context)
    settings = state.settings()
    file, url = settings.home / "anaphora.db", settings.database.url.get_secret_value()
    if not url:
        raise StoreError("Say in database.url (or ANAPHORA_DATABASE__URL) to which PostgreSQL database.")
    with hold_home(settings.home, doing="anaphora move"):
        rows = copy_database(file, url)
    write_down(url, "home.move", detail={"rows": rows})
    state.err.print(f"Copied {rows:,} rows. {file} is no longer used: keep it until all is well, then delete it.")
