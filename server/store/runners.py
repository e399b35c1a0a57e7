"""Which processes are alive: so that one can mark what another left unfinished, and nothing else.

Each process that runs turns or jobs holds a lock on a file of its own. The operating system lets go
of it however the process ends, so a lock that can be taken belongs to a dead one.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from pathlib import Path

from filelock import FileLock, Timeout
from sqlalchemy import Connection, case, select, union, update

from server.store.jobs import UNFINISHED
from server.store.records import JobKind
from server.store.schema import JOBS, TURNS

YOUNG_SECONDS = 600.0
ENDED = "The server ended before the job did. "
CUT_SHORT: Mapping[JobKind, str] = {
    "upload": f"{ENDED}It goes on by itself in the next one.",
    "delete": f"{ENDED}It goes on by itself in the next one.",
    "sync": f"{ENDED}The source is read again when it is due, or when you ask for it.",
    "index": f"{ENDED}Start it again: what it had finished is kept.",
    "reindex": f"{ENDED}Start it again: what it had finished is kept.",
}
"""What is said of a job of a process that has ended, by what becomes of it."""


class Runner:
    """This process's mark on what it has begun."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.id = secrets.token_hex(8)
        # Not of one thread: a server takes it in one and lets go of it in another.
        self._lock = FileLock(folder / f"{self.id}.lock", thread_local=False)
        self._lock.acquire()

    def is_alive(self, runner: str) -> bool:
        """Whether the process that bears this mark still runs."""
        return runner == self.id or is_held(self.folder / f"{runner}.lock")

    def dead(self, connection: Connection) -> list[str]:
        """The processes that have ended before what they had begun."""
        pending, unfinished = TURNS.c.status == "pending", JOBS.c.state.in_(UNFINISHED)
        begun = union(select(TURNS.c.runner).where(pending), select(JOBS.c.runner).where(unfinished))
        return [runner for runner in connection.scalars(begun).all() if not self.is_alive(runner)]

    def mark_interrupted(self, connection: Connection) -> int:
        """Mark the unfinished turns and jobs of dead processes; returns how many there were."""
        now, marked = time.time(), 0
        pending, unfinished = TURNS.c.status == "pending", JOBS.c.state.in_(UNFINISHED)
        for runner in self.dead(connection):
            its_turns = update(TURNS).where(pending, TURNS.c.runner == runner)
            its_jobs = update(JOBS).where(unfinished, JOBS.c.runner == runner)
            ending = case(CUT_SHORT, value=JOBS.c.kind)
            for ended in (
                its_turns.values(status="interrupted", finished=now),
                its_jobs.values(state="interrupted", updated=now, message=ending),
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


def any_alive(folder: Path) -> bool:
    """Whether any process bears a mark in this folder."""
    return any(is_held(path) for path in folder.glob("*.lock"))


def is_held(path: Path) -> bool:
    """Whether a process has the lock of this file."""
    if not path.exists():
        return False
    try:
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True
