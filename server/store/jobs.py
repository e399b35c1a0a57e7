"""Jobs as they are remembered, and the paths a collection was made from. Running them is `server.jobs`."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable
from pathlib import Path

from sqlalchemy import Connection, RowMapping, delete, func, insert, select, update

from server.access import Ownership, Principal
from server.store.dialects import put
from server.store.records import Job
from server.store.schema import JOBS, SOURCES, visible

KEPT = 500
"""Older finished jobs are forgotten."""

UNFINISHED = ("queued", "running")


def add(connection: Connection, job: Job, runner: str, ownership: Ownership) -> None:
    """Remember a new job."""
    row = job.model_dump(include={"id", "kind", "collection", "state", "created", "updated"})
    n = 1 + (connection.scalar(select(func.max(JOBS.c.n))) or 0)
    belongs = {"n": n, "runner": runner, "owner": ownership.owner, "group_name": ownership.group}
    connection.execute(insert(JOBS), {**row, **belongs})
    newest = select(JOBS.c.id).order_by(JOBS.c.n.desc()).limit(KEPT)
    connection.execute(delete(JOBS).where(JOBS.c.state.not_in(UNFINISHED), JOBS.c.id.not_in(newest)))


def claim(connection: Connection, job: Job) -> str:
    """The state of a job that is to begin: `running` from now on, `queued` while another server works there.

    Or how somebody has ended it meanwhile. In what order the jobs of one server follow is its own business.
    """
    state, runner = connection.execute(select(*JOBS.c["state", "runner"]).where(JOBS.c.id == job.id)).one()
    its = JOBS.c.collection == job.collection, JOBS.c.state == "running", JOBS.c.runner != runner
    if state != "queued" or connection.scalar(select(func.count()).where(*its)):
        return str(state)
    connection.execute(update(JOBS).where(JOBS.c.id == job.id).values(state="running"))
    return "running"


def save(connection: Connection, job: Job) -> bool:
    """Remember how a job stands; False where it goes on and somebody has ended it meanwhile."""
    stands = job.model_dump(include={"state", "stage", "done", "total", "message", "updated"})
    stands["files"] = json.dumps([result.model_dump() for result in job.files])
    its = update(JOBS).where(JOBS.c.id == job.id)
    if not job.finished:
        its = its.where(JOBS.c.state.in_(UNFINISHED))
    return connection.execute(its.values(stands)).rowcount > 0


def cancel(connection: Connection, job_id: str) -> None:
    """End a job of another server, which notices that as it goes on."""
    its = update(JOBS).where(JOBS.c.id == job_id, JOBS.c.state.in_(UNFINISHED))
    connection.execute(its.values(state="cancelled", updated=time.time(), message="Cancelled."))


def working_on(connection: Connection, collection: str) -> list[str]:
    """The ids of the jobs on a collection that wait or run, oldest first."""
    its = select(JOBS.c.id).where(JOBS.c.collection == collection, JOBS.c.state.in_(UNFINISHED))
    return list(connection.scalars(its.order_by(JOBS.c.n)))


def begun_by(connection: Connection, runners: Collection[str]) -> list[tuple[str, str]]:
    """Kind and collection of the unfinished jobs of these processes."""
    its = select(*JOBS.c["kind", "collection"]).where(JOBS.c.runner.in_(runners), JOBS.c.state.in_(UNFINISHED))
    return [(row.kind, row.collection) for row in connection.execute(its)]


def find(connection: Connection, job_id: str, who: Principal) -> Job | None:
    """One job as last saved."""
    row = connection.execute(select(JOBS).where(JOBS.c.id == job_id, visible(JOBS, who))).mappings().first()
    return _job(row) if row else None


def unfinished(connection: Connection, owner: str) -> int:
    """How many jobs of an owner wait or run."""
    count = select(func.count()).where(JOBS.c.owner == owner, JOBS.c.state.in_(UNFINISHED))
    return connection.scalar(count) or 0


def listing(connection: Connection, collection: str | None, who: Principal, limit: int = 100) -> list[Job]:
    """Newest first."""
    wanted = select(JOBS).where(visible(JOBS, who)).order_by(JOBS.c.n.desc()).limit(limit)
    if collection is not None:
        wanted = wanted.where(JOBS.c.collection == collection)
    return [_job(row) for row in connection.execute(wanted).mappings()]


def cut_short(connection: Connection) -> list[str]:
    """The collections whose last upload or deletion of one was interrupted."""
    rows = select(*JOBS.c["collection", "state"]).where(JOBS.c.kind.in_(("upload", "delete"))).order_by(JOBS.c.n)
    last: dict[str, str] = {row.collection: row.state for row in connection.execute(rows)}
    return [collection for collection, state in last.items() if state == "interrupted"]


def remember_sources(connection: Connection, collection: str, paths: Iterable[Path]) -> None:
    """Remember the absolute paths that a collection was indexed from."""
    now = time.time()
    rows = [{"collection": collection, "path": str(path), "added": now} for path in paths]
    if rows:
        put(connection, SOURCES, *rows, keep=True)


def sources(connection: Connection, collection: str) -> list[Path]:
    """The paths a collection was indexed from, in the order they were added."""
    rows = select(SOURCES.c.path).where(SOURCES.c.collection == collection).order_by(SOURCES.c.added, SOURCES.c.path)
    return [Path(path) for path in connection.scalars(rows)]


def forget_sources(connection: Connection, collection: str) -> None:
    """Forget where a collection came from."""
    connection.execute(delete(SOURCES).where(SOURCES.c.collection == collection))


def _job(row: RowMapping) -> Job:
    return Job(**{**row, "files": json.loads(row["files"])})
