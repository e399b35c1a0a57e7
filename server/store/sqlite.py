"""The database in a file of the home: SQLite in WAL mode, which one process after the other writes to.

A committed write survives the death of the process at any moment (`synchronous = NORMAL`: only a power cut may cost the
newest commits, never the file).
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from filelock import FileLock
from sqlalchemy import URL, Connection, Engine, create_engine, event

from server.store.records import StoreError, StoreFull

log = logging.getLogger(__name__)

BUSY_SECONDS = 10.0
"""How long a write waits for another process (a terminal command beside the server)."""


class SqliteFile:
    """A `server.store.database.DatabaseKind` by its path."""

    statements = Path(__file__).parent

    def __init__(self, path: Path, readers: int, *, read_only: bool = False) -> None:
        self.path, self.name = path, str(path)
        how = {"uri": "true", "mode": "ro"} if read_only else {}
        named = path.absolute().as_uri() if read_only else str(path)
        self.writing = _engine(named, "BEGIN IMMEDIATE", 1, how)
        self.reading = _engine(named, "BEGIN", readers, how)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Hold the file while its tables are made or changed."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            if not self.path.stat().st_size:
                log.warning("the database %s is empty: if it held anything, restore a backup", self.path)
        # Conversations are nobody else's business on a shared machine.
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        with FileLock(self.path.with_name(self.path.name + ".lock")):
            with self.raw() as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                # A table that is made anew under its old name must not take what refers to it along.
                connection.execute("PRAGMA foreign_keys = OFF")
            yield
            with self.raw() as connection:
                connection.execute("PRAGMA foreign_keys = ON")

    @contextmanager
    def raw(self) -> Iterator[sqlite3.Connection]:
        """The writing connection without a transaction."""
        pooled = self.writing.raw_connection()
        try:
            assert isinstance(pooled.driver_connection, sqlite3.Connection)
            yield pooled.driver_connection
        finally:
            pooled.close()

    def write_nothing(self, connection: Connection) -> None:
        """Write a value that is there already: some kB, without waiting for the disk."""
        connection.exec_driver_sql("PRAGMA user_version = 1")

    def compact(self) -> str:
        """Write the file anew without what was deleted, and empty its journal. Return the reason why deleted words may
        remain, if any.

        Raises sqlite3.Error where there is no room: for a while the file is there twice.
        """
        with self.raw() as connection:
            connection.execute("VACUUM")
            busy: int = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        advice = "Another process still reads the database; end it and erase again."
        return advice if busy else ""

    def dump_command(self) -> str:
        return "anaphora backup"

    def unopened(self, cause: BaseException) -> str:
        """Build the error for a file that cannot be opened."""
        if no_room(self.path):
            return f"The database {self.path} cannot be opened: the disk is full. Free some space; it lost nothing."
        return (
            f"The database {self.path} cannot be opened ({cause}). Check the disk and its rights, or move the file "
            "away to start with an empty one."
        )

    def meaning(self, cause: BaseException) -> StoreError | None:
        """Map a driver error to a `StoreError`; None where it is the caller's own."""
        if isinstance(cause, sqlite3.IntegrityError | sqlite3.ProgrammingError):
            return None
        if not isinstance(cause, sqlite3.OperationalError):
            return StoreError(f"The database {self.path} is damaged ({cause}). Restore it, or move it away.")
        code = cause.sqlite_errorcode
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY) or code & 0xFF == sqlite3.SQLITE_IOERR:
            return StoreFull(
                f"Could not write to {self.path} ({cause}). Free some space on that disk; what was stored before is "
                "safe."
            )
        return StoreError(f"The database {self.path} did not do its work: {cause}.")


def _engine(named: str, begin: str, connections: int, query: Mapping[str, str]) -> Engine:
    url = URL.create("sqlite", database=named, query=query)
    how = {"timeout": BUSY_SECONDS, "isolation_level": None}
    # What was said in conversations stands in no message of an error.
    engine = create_engine(url, connect_args=how, pool_size=connections, max_overflow=0, hide_parameters=True)

    @event.listens_for(engine, "connect")
    def set_up(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = NORMAL")

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        # What SQLAlchemy does around a statement takes longer than this one.
        connection.connection.cursor().execute(begin)

    return engine


def no_room(path: Path) -> bool:
    """Whether a file's disk is so full that SQLite can open no database there, a sound one neither."""
    return shutil.disk_usage(path.parent).free < 1 << 20


def find_damage(path: Path) -> str:
    """Check a database file, even one in use, and return its defects; empty if there are none. Reads all of it."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", timeout=BUSY_SECONDS, uri=True)) as reader:
            result = str(reader.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        return str(error)
    return "" if result == "ok" else result[:200]


def newer(name: str) -> str:
    """Build the message for a database that a later version has changed."""
    return f"The database {name} was written by a newer Anaphora. Install that version, or use another home."
