"""Databases for tests of the store: a SQLite file, and a database of a real PostgreSQL server.

The server is started once by the system's own programs, as another user where the tests run as root, listens on a Unix
socket alone, and waits for no disk.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from server.store import Database

USER = 65534
"""`nobody`: PostgreSQL does not run as root."""


class PostgresPrograms:
    """A PostgreSQL server of the tests' own; `url(name)` is the address of one of its databases."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
        self._user = {"user": USER, "group": USER, "extra_groups": []} if os.getuid() == 0 else {}
        if self._user:
            os.chown(self.folder, USER, USER)
        how = ("--auth=trust", "--username=anaphora", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync")
        self._run("initdb", *how)
        self.start()

    def _run(self, program: str, *options: str) -> None:
        command = [str(self._programs / program), "-D", str(self.folder / "data"), *options]
        subprocess.run(command, check=True, capture_output=True, timeout=180, cwd=self.folder, **self._user)  # type: ignore[call-overload]

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"-k {self.folder} -c listen_addresses= -c fsync=off -c full_page_writes=off -c shared_buffers=32MB"
        self._run("pg_ctl", "start", "-w", "-o", options, "-l", str(self.folder / "log"))

    def stop(self) -> None:
        """End it at once, whoever is connected."""
        self._run("pg_ctl", "stop", "-m", "immediate")

    def url(self, name: str) -> str:
        return f"postgresql://anaphora@/{name}?host={self.folder}"

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Run statements outside of any transaction."""
        from sqlalchemy import create_engine

        engine = create_engine(self.url(database).replace("postgresql", "postgresql+psycopg"))
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            driver = connection.connection.driver_connection
            assert driver is not None
            driver.execute(statement)
        engine.dispose()


def programs() -> Path | None:
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((folder for folder in folders if (folder / "pg_ctl").exists()), None)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresPrograms]:
    """A running PostgreSQL server with a template of the newest tables."""
    from server.store import Database

    pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    found = programs()
    if found is None:
        pytest.skip("PostgreSQL is not installed: no `initdb` on the path or in /usr/lib/postgresql")
    server = PostgresPrograms(found)
    try:
        server.execute("CREATE DATABASE newest")
        Database(server.url("newest")).close()
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.folder)


@pytest.fixture
def postgres_place(postgres: PostgresPrograms) -> Iterator[str]:
    """The address of a database with empty tables."""
    name = f"t{uuid.uuid4().hex}"
    postgres.execute(f"CREATE DATABASE {name} TEMPLATE newest STRATEGY file_copy")
    yield postgres.url(name)
    postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def place(tmp_path: Path) -> Path | str:
    """Where a new database is. `plugins/scale/tests/test_postgres.py` runs some of these tests on PostgreSQL."""
    return tmp_path / "anaphora.db"


@pytest.fixture
def database(place: Path | str) -> Iterator[Database]:
    """A new database."""
    from server.store import Database

    made = Database(place)
    yield made
    made.close()
