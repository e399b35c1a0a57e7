"""The SQLite file: opening, migrating, and running work on it from async code and from threads.

All writes of a process go through one thread with one connection, so that they never wait for each
other's locks; reads have a few threads with a connection each. What the tables mean is left to the
modules beside this one, which are functions of a connection.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import TypeVar

from filelock import FileLock
from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError

from server.store.errors import StoreError, StoreFull

T = TypeVar("T")

log = logging.getLogger(__name__)

BUSY_SECONDS = 10.0
"""How long a write waits for another process (a terminal command beside the server)."""

READERS = 4


class Database:
    """One SQLite file in WAL mode.

    A committed write survives the death of the process at any moment (`synchronous = NORMAL`: only
    a power cut may cost the newest commits, never the file).
    """

    def __init__(self, path: Path) -> None:
        """Open or make the file and bring its tables up to date. Raises StoreError."""
        self.path = path
        self._writing = _engine(path, "BEGIN IMMEDIATE", 1)
        self._reading = _engine(path, "BEGIN", READERS)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="store-write")
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="store-read")
        try:
            self._prepare()
        except (sqlite3.Error, DBAPIError) as error:
            raise StoreError(
                f"The database {path} cannot be opened ({_cause(error)}). Check the disk and its rights, or move the "
                "file away to start with an empty one."
            ) from error
        except OSError as error:
            raise StoreError(f"The database {path} cannot be made: {error.strerror or error}.") from error

    def _prepare(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            if not self.path.stat().st_size:
                log.warning("the database %s is empty: if it held anything, restore a backup", self.path)
        # Conversations are nobody else's business on a shared machine.
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        with FileLock(self.path.with_name(self.path.name + ".lock")), self._raw() as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            _migrate(connection, self.path)

    @contextmanager
    def _raw(self) -> Iterator[sqlite3.Connection]:
        """A connection without a transaction."""
        pooled = self._writing.raw_connection()
        try:
            assert isinstance(pooled.driver_connection, sqlite3.Connection)
            yield pooled.driver_connection
        finally:
            pooled.close()

    def _run_write(self, work: Callable[[Connection], T]) -> T:
        with _translated(self.path), self._writing.begin() as connection:
            return work(connection)

    def _run_read(self, work: Callable[[Connection], T]) -> T:
        # In a transaction, so that all that is read is one state, whatever is written meanwhile.
        with _translated(self.path), self._reading.begin() as connection:
            return work(connection)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in one transaction. It is committed when this returns, and completes even if
        the waiting task is cancelled. Raises StoreFull or StoreError."""
        # Handed over before anything is awaited, and shielded, so that no cancellation can take it back.
        return await asyncio.shield(asyncio.wrap_future(self._writer.submit(self._run_write, work)))

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on a reading connection. Raises StoreError."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._run_read, work)

    def write_later(self, work: Callable[[Connection], T]) -> None:
        """`write` that nobody waits for; if it fails, the log says so."""
        self._writer.submit(self._run_write, work).add_done_callback(_log_failure)

    def write_blocking(self, work: Callable[[Connection], T]) -> T:
        """`write` for code that runs in a thread or a terminal command."""
        return self._writer.submit(self._run_write, work).result()

    def read_blocking(self, work: Callable[[Connection], T]) -> T:
        """`read` for code that runs in a thread or a terminal command."""
        return self._readers.submit(self._run_read, work).result()

    def compact(self) -> bool:
        """Write the file anew without what was deleted, and empty its journal.

        False where another process still reads an older state, so that the journal may hold deleted words until it
        ends. Raises StoreFull: for a while the file is there twice.
        """

        def work() -> bool:
            with _translated(self.path), self._raw() as connection:
                connection.execute("VACUUM")
                busy: int = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
                return not busy

        return self._writer.submit(work).result()

    def close(self) -> None:
        """Finish what was begun and close every connection."""
        self._writer.shutdown()
        self._readers.shutdown()
        self._writing.dispose()
        self._reading.dispose()


def _engine(path: Path, begin: str, connections: int, **query: str) -> Engine:
    url = URL.create("sqlite", database=str(path), query=query)
    how = {"timeout": BUSY_SECONDS, "isolation_level": None}
    # What was said in conversations stands in no message of an error.
    engine = create_engine(url, connect_args=how, pool_size=connections, max_overflow=0, hide_parameters=True)

    @event.listens_for(engine, "connect")
    def set_up(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = NORMAL")

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


@contextmanager
def read_only(path: Path) -> Iterator[Connection]:
    """A connection that makes and changes nothing, also not the tables of an older version. Raises StoreError."""
    engine = _engine(Path(path.absolute().as_uri()), "BEGIN", 1, mode="ro", uri="true")
    try:
        with _translated(path), engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def find_damage(path: Path) -> str:
    """What is wrong with a database file, also one that is in use; empty where nothing is. Reads all of it."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", timeout=BUSY_SECONDS, uri=True)) as reader:
            found = str(reader.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        return str(error)
    return "" if found == "ok" else found[:200]


def _log_failure(future: Future[T]) -> None:
    if error := future.exception():
        log.warning("%s", error)


def _migrations() -> list[tuple[int, str]]:
    folder = resources.files("server.store") / "migrations"
    scripts = sorted(
        (entry.name, entry.read_text("utf-8")) for entry in folder.iterdir() if entry.name.endswith(".sql")
    )
    return [(int(name.split("_", 1)[0]), script) for name, script in scripts]


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    migrations = _migrations()
    if version > migrations[-1][0]:
        raise StoreError(
            f"The database {path} was written by a newer Anaphora. Install that version, or use another home."
        )
    for number, script in migrations:
        if number > version:
            connection.executescript(f"BEGIN IMMEDIATE;\n{script}\nPRAGMA user_version = {number};\nCOMMIT;")


def _cause(error: Exception) -> BaseException:
    """What the driver said."""
    return (error.orig or error) if isinstance(error, DBAPIError) else error


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, DBAPIError) as error:
        cause = _cause(error)
        if isinstance(cause, sqlite3.IntegrityError | sqlite3.ProgrammingError):
            raise
        if not isinstance(cause, sqlite3.OperationalError):
            raise StoreError(f"The database {path} is damaged ({cause}). Restore it, or move it away.") from error
        code = cause.sqlite_errorcode
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY) or code & 0xFF == sqlite3.SQLITE_IOERR:
            raise StoreFull(
                f"Could not write to {path} ({cause}). Free some space on that disk; what was stored before is safe."
            ) from error
        raise StoreError(f"The database {path} did not do its work: {cause}.") from error
