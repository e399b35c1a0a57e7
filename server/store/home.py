"""Lock of a home folder: one server, or one backup, at a time.

The operating system releases the lock however its process ends; a note beside it names the holder.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout
from sqlalchemy import Connection, func, insert, select, text, update

from server.plugins import parts
from server.store.database import Database, read_only
from server.store.records import HomeBusy, StoreError
from server.store.schema import all_tables
from text.files import write_text


@contextmanager
def hold_home(home: Path, *, claim: str = "home", doing: str = "anaphora serve") -> Iterator[None]:
    """Keep other processes from the same `claim` on a home; `doing` is what they are told this one does.

    Raises HomeBusy at once where another has it, OSError where the folder cannot be written to.
    """
    home.mkdir(parents=True, exist_ok=True)
    note = home / f"{claim}.json"
    # Not of one thread: a test takes it in one and lets go of it in another.
    lock = FileLock(home / f"{claim}.lock", timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise HomeBusy(
            f"{home} is in use by {_holder(note)}. End that process first, or choose another folder with --home."
        ) from None
    try:
        write_text(note, json.dumps({"pid": os.getpid(), "doing": doing, "since": time.time()}))
        yield
    finally:
        note.unlink(missing_ok=True)
        lock.release()


def _holder(note: Path) -> str:
    try:
        holder = json.loads(note.read_text("utf-8"))
        since = datetime.fromtimestamp(holder["since"]).astimezone()
        return f"`{holder['doing']}`, process {holder['pid']}, since {since:%Y-%m-%d %H:%M:%S %Z}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


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
