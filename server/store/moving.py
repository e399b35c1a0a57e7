"""From a SQLite file to a PostgreSQL server, once: every row of every table, in one transaction."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, func, insert, select, text, update

from server.store.database import Database, read_only
from server.store.errors import StoreError
from server.store.schema import AUDIT_ANCHOR, METADATA

ROWS = 500
"""Written at once."""


def copy_database(file: Path, url: str) -> int:
    """Copy a file, which is brought up to date first, into an empty database; how many rows there were.

    Raises StoreError, and has written nothing then.
    """
    if not file.exists():
        raise StoreError(f"There is no database {file} to copy.")
    Database(file).close()
    target = Database(url)

    def copy(connection: Connection) -> int:
        tables, copied = [table for table in METADATA.sorted_tables if table is not AUDIT_ANCHOR], 0
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
            anchor = source.execute(select(AUDIT_ANCHOR)).mappings().one()
        connection.execute(update(AUDIT_ANCHOR).where(AUDIT_ANCHOR.c.n < anchor["n"]).values(dict(anchor)))
        return copied

    try:
        return target.write_blocking(copy)
    finally:
        target.close()
