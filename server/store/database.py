"""The database: opening it, bringing its tables up to date, and running work on it from async code and from threads.

All writes of a process go through one thread with one connection, in the order in which they were handed over; reads
have a few threads with a connection each. The tables are handled by the modules beside this one, which are functions of
a connection. A database is a SQLite file of the home in WAL mode (`synchronous = NORMAL`: only a power cut may cost the
newest commits, never the file), or of a plugin (entry points `anaphora.databases`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, TypeVar, Unpack

from filelock import FileLock
from sqlalchemy import URL, Connection, Engine, column, create_engine, event, insert, inspect, select, table, update
from sqlalchemy.exc import DBAPIError

from server.access import Circumstances, account, at_terminal, entry
from server.plugins import parts
from server.store.records import StoreError, StoreFull
from server.store.schema import METADATA, REVISIONS, run_statements
from text.modules import PluginError, load_plugin

log = logging.getLogger(__name__)

BUSY_SECONDS = 10.0
"""How long a write waits for another process (a terminal command beside the server)."""


class DatabaseKind(Protocol):
    """How to open and compact a kind of database, and what its errors mean.

    `statements` is the folder of further statements (`TableGroup`); `name` names the database in messages.
    """

    name: str
    statements: Path
    writing: Engine
    reading: Engine

    def opened(self) -> AbstractContextManager[None]:
        """Hold the database while its tables are made or changed."""

    def write_nothing(self, connection: Connection) -> None:
        """Run a statement that only a writable database accepts."""

    def compact(self) -> str:
        """Write the database anew without deleted rows; return the reason why deleted words may remain, if any."""

    def dump_command(self) -> str:
        """Return the command that saves a database outside of the home, without its password."""

    def unopened(self, cause: BaseException) -> str:
        """Build the message for a database that cannot be opened."""

    def meaning(self, cause: BaseException) -> StoreError | None:
        """Map a driver error to a `StoreError`; None where it is the caller's own."""


class SqliteFile(DatabaseKind):
    """A SQLite file by its path."""

    statements = Path(__file__).parent

    def __init__(self, path: Path, readers: int, *, read_only: bool = False) -> None:
        self.path, self.name = path, str(path)
        how = {"uri": "true", "mode": "ro"} if read_only else {}
        named = path.absolute().as_uri() if read_only else str(path)
        self.writing = _engine(named, "BEGIN IMMEDIATE", 1, how)
        self.reading = _engine(named, "BEGIN", readers, how)

    @contextmanager
    def opened(self) -> Iterator[None]:
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
        # A value that is there already: some kB, without waiting for the disk.
        connection.exec_driver_sql("PRAGMA user_version = 1")

    def compact(self) -> str:
        # Raises sqlite3.Error where there is no room: for a while the file is there twice.
        with self.raw() as connection:
            connection.execute("VACUUM")
            busy: int = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        advice = "Another process still reads the database; end it and erase again."
        return advice if busy else ""

    def dump_command(self) -> str:
        return "anaphora backup"

    def unopened(self, cause: BaseException) -> str:
        if no_room(self.path):
            return f"The database {self.path} cannot be opened: the disk is full. Free some space; it lost nothing."
        return (
            f"The database {self.path} cannot be opened ({cause}). Check the disk and its rights, or move the file "
            "away to start with an empty one."
        )

    def meaning(self, cause: BaseException) -> StoreError | None:
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


T = TypeVar("T")
P = ParamSpec("P")

READERS = 4

_VERSION = table("alembic_version", column("version_num"))


class Database:
    """A SQLite file, by its path, or a database that a plugin opens, by its URL.

    Work is a function of a connection, and of what is given after it.
    """

    def __init__(self, place: Path | str) -> None:
        """Open or make it and bring its tables up to date. Raises StoreError."""
        self.kind = kind_of(place, READERS)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="store-write")
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="store-read")
        try:
            with self.kind.opened(), self.kind.writing.begin() as connection:
                _migrate(connection, self.kind.name, self.kind.statements)
        except (sqlite3.Error, DBAPIError) as error:
            self.close()
            raise StoreError(self.kind.unopened(_cause(error))) from error
        except OSError as error:
            self.close()
            raise StoreError(f"The database {self.kind.name} cannot be opened: {error.strerror or error}.") from error
        except StoreError:
            self.close()
            raise

    def _handed(
        self,
        engine: Engine,
        work: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Future[T]:
        def run() -> T:
            # In a transaction, so that all that is read is one state, whatever is written meanwhile.
            with _translated(self.kind), engine.begin() as connection:
                return work(connection, *args, **kwargs)

        return (self._readers if engine is self.kind.reading else self._writer).submit(run)

    async def write(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` in one transaction. It is committed when this returns, and completes even if
        the waiting task is cancelled. Raises StoreFull or StoreError."""
        # Handed over before anything is awaited, and shielded, so that no cancellation can take it back.
        handed = self._handed(self.kind.writing, work, *args, **kwargs)
        return await asyncio.shield(asyncio.wrap_future(handed))

    async def read(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` on a reading connection. Raises StoreError."""
        return await asyncio.wrap_future(self._handed(self.kind.reading, work, *args, **kwargs))

    def write_later(self, work: Callable[[Connection], T], *, alone: bool = True) -> None:
        """`write` that nobody waits for; if it fails, the log says so.

        One statement on one row, which depends on nothing that was read, need not be `alone`: on a server it does not
        wait for the writes of other processes.
        """
        writing = self.kind.writing if alone else self.kind.writing.execution_options(alone=False)
        self._handed(writing, work).add_done_callback(_log_failure)

    def write_blocking(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`write` for code that runs in a thread or a terminal command."""
        return self._handed(self.kind.writing, work, *args, **kwargs).result()

    def read_blocking(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`read` for code that runs in a thread or a terminal command."""
        return self._handed(self.kind.reading, work, *args, **kwargs).result()

    def compact(self) -> str:
        """Write anew what is left after deleting; what still keeps deleted words, empty where nothing does.

        Raises StoreFull where there is no room for that.
        """

        def work() -> str:
            with _translated(self.kind):
                return self.kind.compact()

        return self._writer.submit(work).result()

    def close(self) -> None:
        """Finish what was begun and close every connection."""
        self._writer.shutdown()
        self._readers.shutdown()
        self.kind.writing.dispose()
        self.kind.reading.dispose()


@contextmanager
def read_only(place: Path | str) -> Iterator[Connection]:
    """A connection that makes and changes nothing, also not the tables of an older version. Raises StoreError, also
    for a database of a newer one."""
    kind = kind_of(place, 1, read_only=True)
    try:
        with _translated(kind), kind.reading.begin() as connection:
            if inspect(connection).has_table(_VERSION.name):
                _demand_known(connection, kind.name)
            yield connection
    finally:
        kind.reading.dispose()


def kind_of(place: Path | str, readers: int, *, read_only: bool = False) -> DatabaseKind:
    """Return the kind of database at a place: a path's file, or what a plugin opens by the URL's scheme.

    Raises StoreError where no plugin does.
    """
    if isinstance(place, Path):
        return SqliteFile(place, readers, read_only=read_only)
    scheme = place.partition(":")[0].partition("+")[0]
    try:
        opened: DatabaseKind = load_plugin("anaphora.databases", scheme, kind="database", builtin=("sqlite",))(
            place, readers
        )
    except PluginError as error:
        raise StoreError(
            f"No installed plugin opens {scheme}:// databases. Install Anaphora with its plugin `scale` and the extra "
            "`postgres`, or leave database.url empty to use a SQLite file in the home."
        ) from error
    return opened


@contextmanager
def _translated(kind: DatabaseKind) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, DBAPIError) as error:
        meaning = kind.meaning(_cause(error))
        if meaning is None:
            raise
        raise meaning from error


def _log_failure(future: Future[T]) -> None:
    if error := future.exception():
        log.warning("%s", error)


def _cause(error: Exception) -> BaseException:
    """Return the driver's message."""
    return (error.orig or error) if isinstance(error, DBAPIError) else error


def _migrate(connection: Connection, name: str, statements: Path) -> None:
    """Make the tables, or apply the revisions that they lack."""
    newest = list(REVISIONS)[-1]
    if not inspect(connection).has_table(_VERSION.name):
        connection.exec_driver_sql(f"CREATE TABLE {_VERSION.name} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
        METADATA.create_all(connection, checkfirst=False)
        run_statements(connection, statements)
        connection.execute(insert(_VERSION), {"version_num": newest})
    revision = _demand_known(connection, name)
    if revision != newest:
        from alembic.migration import MigrationContext
        from alembic.operations import Operations

        for change in [REVISIONS[later] for later in REVISIONS if later > revision]:
            change(Operations(MigrationContext.configure(connection)))
        connection.execute(update(_VERSION).values(version_num=newest))
    for tables in parts("tables"):
        tables.make(connection)


def _demand_known(connection: Connection, name: str) -> str:
    """The revision of the tables. Raises StoreError for that of a newer version."""
    revision = str(connection.scalar(select(_VERSION.c.version_num)))
    if revision not in REVISIONS:
        raise StoreError(
            f"The database {name} was written by a newer Anaphora. Install that version, or use another home."
        )
    return revision


def write_down(place: Path | str, action: str, **more: Unpack[Circumstances]) -> None:
    """Record an act of a command that does not have the database (a path or a URL) open. Raises StoreError."""
    database = Database(place)
    try:
        database.write_blocking(account, entry(at_terminal(), action, **more))
    finally:
        database.close()
