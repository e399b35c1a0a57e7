"""Jobs as they are remembered, and the processes that run turns and jobs. Running jobs is `server.jobs`.

Each process holds a lock on a file of its own. The operating system lets go of it however the process ends, so a lock
that can be taken belongs to a dead one: another process marks what that one left unfinished.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from filelock import FileLock, Timeout
from sqlalchemy import Connection, RowMapping, case, delete, func, insert, not_, select, union, update

from server.access import Ownership, Principal
from server.store.records import Job, JobKind
from server.store.schema import JOBS, TURNS, visible

KEPT = 500
"""Older finished jobs are forgotten."""

_OPEN, _PENDING = JOBS.c.state.in_(("queued", "running")), TURNS.c.status == "pending"
"""Jobs and turns that have not ended."""

WORKERS = "worker-"
"""How the marks of workers begin."""
NO_WORKER = "No worker runs, and jobs wait for one: start `anaphora worker` on this home, or unset `server.workers`."
_LEFT = {"state": "queued", "runner": "", "stage": "", "done": 0, "total": 0}
"""A job that any worker may take."""


def add(connection: Connection, job: Job, runner: str, ownership: Ownership, payload: str = "") -> None:
    """Remember a new job; one with a payload and without a runner is left to workers."""
    row = job.model_dump(include={"id", "kind", "collection", "state", "created", "updated", "message"})
    n = 1 + (connection.scalar(select(func.max(JOBS.c.n))) or 0)
    belongs = {"n": n, "runner": runner, "payload": payload, "owner": ownership.owner, "group_name": ownership.group}
    connection.execute(insert(JOBS), {**row, **belongs})
    newest = select(JOBS.c.id).order_by(JOBS.c.n.desc()).limit(KEPT)
    connection.execute(delete(JOBS).where(not_(_OPEN), JOBS.c.id.not_in(newest)))


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


def any_left(connection: Connection) -> bool:
    """Whether a job waits for a worker."""
    its = select(JOBS.c.id).where(JOBS.c.state == "queued", JOBS.c.runner == "").limit(1)
    return connection.scalar(its) is not None


def take(connection: Connection, runner: str, most: int) -> list[tuple[Job, str, Ownership]]:
    """Give a worker at most so many jobs, each with its payload: the oldest of collections that nobody works on."""
    taken = list[tuple[Job, str, Ownership]]()
    theirs = select(JOBS.c.collection).where(_OPEN, JOBS.c.runner != "")
    busy = set(connection.scalars(theirs))
    left = select(JOBS).where(JOBS.c.state == "queued", JOBS.c.runner == "").order_by(JOBS.c.n)
    for row in connection.execute(left).mappings().all():
        if len(taken) < most and row["collection"] not in busy:
            busy.add(row["collection"])
            job = _job(row).model_copy(update={"message": ""})
            connection.execute(update(JOBS).where(JOBS.c.id == job.id).values(runner=runner, message=""))
            taken.append((job, row["payload"], Ownership(row["owner"], row["group_name"])))
    return taken


def give_back(connection: Connection, job_id: str, runner: str) -> None:
    """Leave a worker's job that is not finished to the next."""
    its = JOBS.c.id == job_id, JOBS.c.runner == runner, _OPEN
    connection.execute(update(JOBS).where(*its).values(_LEFT))


def save(connection: Connection, job: Job, runner: str) -> bool:
    """Remember how a job of a process stands; False where it goes on and somebody has ended or taken it meanwhile."""
    stands = job.model_dump(include={"state", "stage", "done", "total", "message", "updated"})
    stands["files"] = json.dumps([result.model_dump() for result in job.files])
    its = update(JOBS).where(JOBS.c.id == job.id, JOBS.c.runner == runner)
    if not job.finished:
        its = its.where(_OPEN)
    return connection.execute(its.values(stands)).rowcount > 0


def cancel(connection: Connection, job_id: str) -> None:
    """End a job of another server, which notices that as it goes on."""
    its = update(JOBS).where(JOBS.c.id == job_id, _OPEN)
    connection.execute(its.values(state="cancelled", updated=time.time(), message="Cancelled."))


def working_on(connection: Connection, collection: str, kind: JobKind | None = None) -> list[str]:
    """The ids of the jobs (of a kind) on a collection that wait or run, oldest first."""
    its = select(JOBS.c.id).where(JOBS.c.collection == collection, _OPEN).order_by(JOBS.c.n)
    return list(connection.scalars(its.where(JOBS.c.kind == kind) if kind else its))


def begun_by(connection: Connection, runners: Collection[str]) -> list[tuple[str, str]]:
    """Kind and collection of the unfinished jobs of these processes, but for those that are left to workers."""
    its = JOBS.c.runner.in_(runners), _OPEN, JOBS.c.payload == ""
    return [(row.kind, row.collection) for row in connection.execute(select(*JOBS.c["kind", "collection"]).where(*its))]


def find(connection: Connection, job_id: str, who: Principal) -> Job | None:
    """One job as last saved."""
    row = connection.execute(select(JOBS).where(JOBS.c.id == job_id, visible(JOBS, who))).mappings().first()
    return _job(row) if row else None


def unfinished(connection: Connection, owner: str) -> int:
    """Count the jobs of an owner that wait or run; embedding, which nobody asks for, is left out."""
    count = select(func.count()).where(JOBS.c.owner == owner, _OPEN, JOBS.c.kind != "embed")
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


def _job(row: RowMapping) -> Job:
    return Job(**{**row, "files": json.loads(row["files"])})


YOUNG_SECONDS = 600.0
ENDED = "The server ended before the job did. "
CUT_SHORT: Mapping[JobKind, str] = {
    "upload": f"{ENDED}It goes on by itself in the next one.",
    "delete": f"{ENDED}It goes on by itself in the next one.",
    "sync": f"{ENDED}The source is read again when it is due, or when you ask for it.",
    "embed": f"{ENDED}It goes on by itself in the next one.",
    "index": f"{ENDED}Start it again: what it had finished is kept.",
    "reindex": f"{ENDED}Start it again: what it had finished is kept.",
}
"""What is said of a job of a process that has ended, by what becomes of it."""
ATTEMPTS = 3
GIVEN_UP = f"{ATTEMPTS} workers ended during this job, perhaps for want of memory: it is not tried again by itself."


class Runner:
    """This process's mark on what it has begun."""

    def __init__(self, folder: Path, prefix: str = "") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.id = prefix + secrets.token_hex(8)
        # Not of one thread: a server takes it in one and lets go of it in another.
        self._lock = FileLock(folder / f"{self.id}.lock", thread_local=False)
        self._lock.acquire()

    def is_alive(self, runner: str) -> bool:
        """Whether the process that bears this mark still runs."""
        return runner == self.id or is_held(self.folder / f"{runner}.lock")

    def dead(self, connection: Connection) -> list[str]:
        """The processes that have ended before what they had begun."""
        begun = union(select(TURNS.c.runner).where(_PENDING), select(JOBS.c.runner).where(_OPEN, JOBS.c.runner != ""))
        return [runner for runner in connection.scalars(begun).all() if not self.is_alive(runner)]

    def mark_interrupted(self, connection: Connection) -> int:
        """Mark the unfinished turns and jobs of dead processes; returns how many there were.

        Jobs that were left to workers are left to the next, until `ATTEMPTS` have ended.
        """
        now, marked = time.time(), 0
        for runner in self.dead(connection):
            its_turns = update(TURNS).where(_PENDING, TURNS.c.runner == runner)
            its_jobs = update(JOBS).where(_OPEN, JOBS.c.runner == runner)
            ending = case(CUT_SHORT, value=JOBS.c.kind)
            for ended in (
                its_turns.values(status="interrupted", finished=now),
                its_jobs.where(JOBS.c.payload == "").values(state="interrupted", updated=now, message=ending),
                its_jobs.where(JOBS.c.attempts + 1 >= ATTEMPTS).values(state="failed", updated=now, message=GIVEN_UP),
                its_jobs.values(**_LEFT, attempts=JOBS.c.attempts + 1),
            ):
                marked += connection.execute(ended).rowcount
        return marked

    def close(self) -> None:
        """Let go of the mark, and sweep away those of processes long dead."""
        self._lock.release()
        (self.folder / f"{self.id}.lock").unlink(missing_ok=True)
        for path in self.folder.glob("*.lock"):
            # A young file may belong to a process that has made it and not locked it yet.
            if time.time() - path.stat().st_mtime > YOUNG_SECONDS and not self.is_alive(path.stem):
                path.unlink(missing_ok=True)


def any_alive(folder: Path, prefix: str = "") -> bool:
    """Whether any process bears a mark in this folder that begins so."""
    return any(is_held(path) for path in folder.glob(f"{prefix}*.lock"))


def is_held(path: Path) -> bool:
    """Whether a process has the lock of this file."""
    if not path.exists():
        return False
    try:
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True
