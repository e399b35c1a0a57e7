"""The database on a PostgreSQL server, which any number of processes on any number of machines share.

Every write holds one lock of the database from its beginning to its commit, as SQLite's writer does: what was read in a
write is still so when it is committed, and rows get their numbers in the order of the commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from server.store.records import StoreError, StoreFull
from server.store.schema import all_tables, day_of, json_count, json_text
from text.modules import need_extra

WRITERS_LOCK = 0x616E6170686F7261
"""The number of the advisory lock: `anaphora` in ASCII."""

LOCK_SECONDS = 10
"""How long a write waits for those of other processes."""

STALLED_SECONDS = 60
"""A transaction in which nothing happens for so long is ended by the server: its process hangs, and others wait."""

CONNECT_SECONDS = 5

_FULL = ("53100", "25006", "58030")
"""disk_full, read_only_sql_transaction, io_error."""


class PostgresServer:
    """A `server.store.database.DatabaseKind` by its URL. Raises StoreError."""

    statements = Path(__file__).parent

    def __init__(self, url: str, readers: int) -> None:
        need_extra("postgres", "PostgreSQL", "psycopg", error=StoreError)
        try:
            self.url = make_url(url).set(drivername="postgresql+psycopg")
        except (ArgumentError, ValueError) as error:
            raise StoreError("database.url is written postgresql://USER:PASSWORD@HOST:PORT/DATABASE.") from error
        host = self.url.host or self.url.query.get("host", "localhost")
        self.name = f"{self.url.database} at {host}:{self.url.port or 5432}"
        self.writing = self._engine(1)
        self.reading = self._engine(
            readers, isolation_level="REPEATABLE READ", execution_options={"postgresql_readonly": True}
        )
        event.listen(self.writing, "begin", _alone)

    def _engine(self, connections: int, **how: Any) -> Engine:
        options = {"connect_timeout": CONNECT_SECONDS, "keepalives_idle": 30, "application_name": "anaphora"}
        # A server that was restarted is found again (`pool_pre_ping`).
        engine = create_engine(
            self.url,
            connect_args=options,
            pool_size=connections,
            max_overflow=0,
            pool_pre_ping=True,
            hide_parameters=True,
            **how,
        )
        event.listen(engine, "connect", _set_up)
        event.listen(engine, "before_cursor_execute", _without_nul, retval=True)
        return engine

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Do nothing: the writers' lock keeps others from making or changing tables."""
        yield

    def write_nothing(self, connection: Connection) -> None:
        """Run a statement that only a writable server accepts."""
        connection.execute(select(func.pg_current_xact_id()))

    def compact(self) -> str:
        """Write every table anew without what was deleted. Return the reason why deleted words may remain, if any."""
        with self.writing.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            for table in all_tables():
                connection.exec_driver_sql(f'VACUUM (FULL) "{table.name}"')
        return "The write-ahead log of the database's server, its replicas and earlier dumps still hold deleted words."

    def unopened(self, cause: BaseException) -> str:
        """Build the error for a database that cannot be opened."""
        return (
            f"The database {self.name} cannot be reached ({_line(cause)}). Start that server, or correct database.url: "
            "host, port, user, password and database must be there."
        )

    def meaning(self, cause: BaseException) -> StoreError | None:
        """Map a driver error to a `StoreError`; None where it is the caller's own."""
        from psycopg import OperationalError

        state = str(getattr(cause, "sqlstate", None) or "")
        if state.startswith("23"):
            return None
        if state in _FULL:
            return StoreFull(
                f"Could not write to {self.name} ({_line(cause)}). Free some space on its server; what was stored "
                "before is safe."
            )
        if isinstance(cause, OperationalError) and (not state or state.startswith(("08", "57P", "28", "3D"))):
            return StoreError(self.unopened(cause))
        if not state:
            return None
        return StoreError(f"The database {self.name} did not do its work: {_line(cause)}.")

    def dump_command(self) -> str:
        """Return the command that saves the database, without its password: `pg_dump` asks for that, or reads
        ~/.pgpass."""
        parts = self.url.set(drivername="postgresql", password=None, query={})
        return f"pg_dump --format=custom --file=anaphora.dump {parts.render_as_string()}"


def _alone(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("alone", True) and options.get("isolation_level") != "AUTOCOMMIT":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({WRITERS_LOCK})")


def _set_up(connection: Any, _: object) -> None:
    connection.autocommit = True
    connection.execute(f"SET lock_timeout = '{LOCK_SECONDS}s'")
    connection.execute(f"SET idle_in_transaction_session_timeout = '{STALLED_SECONDS}s'")
    connection.autocommit = False


def _without_nul(_: object, __: object, statement: str, parameters: Any, *___: object) -> tuple[str, Any]:
    """PostgreSQL's texts hold no NUL."""
    if isinstance(parameters, dict):
        return statement, {k: v.replace("\0", "\ufffd") if isinstance(v, str) else v for k, v in parameters.items()}
    return statement, parameters


def _line(cause: BaseException) -> str:
    return " ".join(str(cause).split())[:300]


def _render(form: str, further: str, element: Any, compiler: SQLCompiler, how: dict[str, Any]) -> str:
    parts = [compiler.process(part, **how) for part in element.clauses]
    return form.replace("{where}", further if len(parts) > 2 else "").format(*parts)


@compiles(json_text, "postgresql")
def _json_text(element: Any, compiler: SQLCompiler, **how: Any) -> str:
    return _render("({0}::json ->> {1})", "", element, compiler, how)


@compiles(json_count, "postgresql")
def _json_count(element: Any, compiler: SQLCompiler, **how: Any) -> str:
    items = "json_array_elements(coalesce({0}::json -> {1}, '[]')) one(value)"
    wrong = " WHERE NOT (one.value ->> {2})::boolean"
    return _render(f"(SELECT count(*) FROM {items}{{where}})", wrong, element, compiler, how)


@compiles(day_of, "postgresql")
def _day_of(element: Any, compiler: SQLCompiler, **how: Any) -> str:
    return _render("to_char(to_timestamp({0}) AT TIME ZONE 'UTC', 'YYYY-MM-DD')", "", element, compiler, how)
