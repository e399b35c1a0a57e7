"""`AdminService`: jobs, runs, readiness and metrics."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from index.documents import Query
from index.errors import IndexingError
from rewriter.protocol import RunError
from server import runs
from server.chat.base import (
    MAX_ID_CHARS,
    Conflict,
    NotFound,
    ServiceBase,
    checked_name,
    clean,
    found_or_missing,
    requires,
    run_blocking,
)
from server.chat.loaded_models import Collections
from server.runs import COMMANDS, FOLDERS, RunDetail, RunGroup, RunSummary
from server.store import Database, StoreError
from server.store.jobs import NO_WORKER, WORKERS, any_alive
from server.store.records import Job, View


class Readiness(View):
    """Whether a turn would be answered without waiting; `waiting_for` says in words for what.

    `problems` keep turns from being answered well, `warnings` do not.
    """

    ready: bool
    engine: str
    collection: str
    waiting_for: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class AdminService(ServiceBase):
    """The server and its home, as far as whoever acts may see and change them."""

    @requires("jobs")
    async def job(self, job_id: str) -> Job:
        """How a job stands. Raises NotFound."""
        key = clean(job_id, MAX_ID_CHARS, "job_id")
        return found_or_missing(await run_blocking(lambda: self.core.runner.find(key, self.principal)), "job", key)

    @requires("jobs")
    async def jobs(self, collection: str | None = None) -> list[Job]:
        """Newest first."""
        name = checked_name(collection) if collection else None
        return await run_blocking(lambda: self.core.runner.listing(self.principal, name))

    @requires("jobs")
    async def cancel_job(self, job_id: str) -> Job:
        """Ask a job to stop; the collection then stays as it was before it. Raises NotFound."""
        job = await self.job(job_id)
        await self.account("job.cancel", job.id, collection=job.collection)
        await run_blocking(lambda: self.core.runner.cancel(job.id))
        return await self.job(job_id)

    @requires("server")
    async def runs(self) -> list[RunSummary]:
        """Return every run of the home, the newest first."""
        return await asyncio.to_thread(runs.list_runs, self.core.settings.home)

    @requires("server")
    async def run_commands(self) -> dict[RunGroup, str]:
        """Return the command that starts a run of each group in a terminal."""
        home = str(self.core.settings.home.absolute())
        return {group: command.replace("{home}", home) for group, command in COMMANDS.items()}

    @requires("server")
    async def run(self, group: RunGroup, name: str) -> RunDetail:
        """Return a run with its figures and tables. Raises NotFound."""
        run = await asyncio.to_thread(runs.read_run, self.core.settings.home, group, name)
        if run is None:
            raise NotFound(f"There is no run {name[:80]!r} of {group}.", code="run_not_found")
        return run

    @requires("server")
    async def run_folder(self, group: RunGroup, name: str) -> Path:
        """Return the folder of a run. Raises NotFound."""
        await self.run(group, name)
        return self.core.settings.home / FOLDERS[group] / name

    @requires("server")
    async def promote_run(self, name: str) -> str:
        """Make a trained rewriter serve and return the name of the one it replaces.

        Without a name bring back what served before the last promotion, and return its name. Raises NotFound, Conflict.
        """
        home = self.core.settings.home
        if name:
            await self.run("rewriters", name)
            await self.account("run.promote", f"rewriters/{name}")
        else:
            await self.account("run.rollback", "rewriters")
        try:
            return await asyncio.to_thread(lambda: runs.promote(home, name) if name else runs.rollback(home))
        except RunError as error:
            raise Conflict(str(error), code="cannot_serve") from error

    @requires("ready")
    async def readiness(self) -> Readiness:
        """Whether a question to the default collection would be answered without waiting for anything to load.

        The reason is shown to operators of every group.
        """
        readiness = await self._readiness()
        return readiness if self.may("server") else Readiness(ready=readiness.ready, engine="", collection="")

    async def _readiness(self) -> Readiness:
        core, name, models = self.core, self.core.settings.collection, self.core.models
        waiting, problems = list[str](), [models.keeper.problem]
        engine = models.keeper.running
        if engine is not None:
            healthy = await asyncio.to_thread(engine.healthy)
            problems.append(core.answers.problem if healthy else "The language model does not answer.")
        elif not models.keeper.problem:
            waiting.append("the language model")
        problems += [models.rewriters.problem, models.reranker_problem, await core.disk.problem()]
        if core.opened.is_open(name) or core.opened.problem(name):
            # It is searched even where a problem is known: that is how its end is noticed.
            fails = await core.searching.problem()
            problems.append(core.opened.problem(name) or fails)
        elif await run_blocking(lambda: core.opened.exists(name)):
            waiting.append(f"the collection {name}")
        else:
            problems.append(f"There is no collection {name} yet. Index documents into it.")
        warnings = [await core.limits.look(), core.opened.outdated(name)]
        if core.settings.server.workers and not await asyncio.to_thread(any_alive, core.mark.folder, WORKERS):
            warnings.append(NO_WORKER)
        return Readiness(
            ready=not waiting and not any(problems),
            engine=engine.name if engine else "",
            collection=name,
            waiting_for=tuple(waiting),
            problems=tuple(filter(None, problems)),
            warnings=tuple(filter(None, warnings)),
        )

    @requires("ready")
    async def admit(self) -> None:
        """Count a request that did not come by the API. Raises LimitReached."""
        await self.core.limits.request(self.principal)

    @requires("server")
    def exposition(self) -> bytes:
        """Return the server's metrics in Prometheus' text format."""
        return self.core.metrics.exposition()


REMEMBERED_SECONDS = 5.0
WAIT_SECONDS = 3.0
RESERVE = 64 << 20
"""Bytes that must be free on the disk of the home: a turn, its trace and SQLite's own files need room."""
SEARCH_FAILURES = (IndexingError, OSError, sqlite3.Error, ValueError, RuntimeError)
"""What opening or searching a broken collection raises."""


class Probe:
    """A blocking look at something that may be broken; `look` answers with what is, or with nothing."""

    def __init__(self, what: str, look: Callable[[], str]) -> None:
        self._what = what
        self._look = look
        self._task: asyncio.Task[str] | None = None
        self._began = 0.0

    async def problem(self) -> str:
        """Return the problem as of the last few seconds; a probe that takes too long is a problem itself."""
        if self._task is None or (self._task.done() and time.monotonic() - self._began > REMEMBERED_SECONDS):
            self._began = time.monotonic()
            self._task = asyncio.create_task(asyncio.to_thread(self._look))
        done, _ = await asyncio.wait({self._task}, timeout=WAIT_SECONDS)
        return self._task.result() if done else f"{self._what} takes longer than {WAIT_SECONDS:.0f} seconds."


def database_problem(database: Database) -> str:
    """Why the database takes no writes, though its disk may; empty where it does."""

    try:
        database.write_blocking(database.kind.write_nothing)
    except StoreError as error:
        return str(error)
    return ""


def search_problem(opened: Collections, name: str) -> str:
    """Why a search of a collection fails; empty where it works."""
    try:
        opened.get(name).search([Query("test")], k=1)
    except SEARCH_FAILURES as error:
        return f"Searching {name} fails: {error}"
    return ""


def disk_problem(home: Path) -> str:
    """Why nothing can be stored in the home; empty where it can."""
    try:
        with tempfile.TemporaryFile(dir=home) as file:
            file.write(bytes(4096))
        free = shutil.disk_usage(home).free
    except OSError as error:
        return f"Nothing can be stored in {home}: {error.strerror or error}."
    return f"The disk of {home} has {free >> 20} MiB free; free some space." if free < RESERVE else ""
