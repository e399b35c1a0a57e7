"""Jobs as they are remembered, and the paths a collection was made from. Running them is `server.jobs`."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path

from server.access import Seen, Whose
from server.store.records import Job

_HIDDEN = ("runner", "files", "owner", "group_name")

KEPT = 500
"""Older finished jobs are forgotten."""


def add(connection: sqlite3.Connection, job: Job, runner: str, whose: Whose) -> None:
    """Remember a new job."""
    connection.execute(
        "INSERT INTO jobs (id, kind, collection, state, created, updated, runner, owner, group_name) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (job.id, job.kind, job.collection, job.state, job.created, job.updated, runner, whose.owner, whose.group),
    )
    connection.execute(
        "DELETE FROM jobs WHERE state NOT IN ('queued', 'running') AND id NOT IN "
        "(SELECT id FROM jobs ORDER BY rowid DESC LIMIT ?)",
        (KEPT,),
    )


def save(connection: sqlite3.Connection, job: Job) -> None:
    """Remember how a job stands."""
    connection.execute(
        "UPDATE jobs SET state = ?, stage = ?, done = ?, total = ?, message = ?, files = ?, updated = ? WHERE id = ?",
        (
            job.state,
            job.stage,
            job.done,
            job.total,
            job.message,
            json.dumps([result.model_dump() for result in job.files]),
            job.updated,
            job.id,
        ),
    )


def find(connection: sqlite3.Connection, job_id: str, seen: Seen) -> Job | None:
    """One job as last saved."""
    row = connection.execute(
        f"SELECT * FROM jobs j WHERE id = :id AND {seen.on('j')}", {"id": job_id, **seen.values}
    ).fetchone()
    return _job(row) if row else None


def unfinished(connection: sqlite3.Connection, owner: str) -> int:
    """How many jobs of an owner wait or run."""
    found = connection.execute("SELECT count(*) FROM jobs WHERE owner = ? AND state IN ('queued', 'running')", (owner,))
    count: int = found.fetchone()[0]
    return count


def listing(connection: sqlite3.Connection, collection: str | None, seen: Seen, limit: int = 100) -> list[Job]:
    """Newest first."""
    rows = connection.execute(
        f"SELECT * FROM jobs j WHERE (:collection IS NULL OR collection = :collection) AND {seen.on('j')} "
        "ORDER BY rowid DESC LIMIT :limit",
        {"collection": collection, "limit": limit, **seen.values},
    )
    return [_job(row) for row in rows]


def cut_short(connection: sqlite3.Connection) -> list[str]:
    """The collections whose last upload or deletion of one was interrupted."""
    rows = connection.execute(
        "SELECT collection, state, max(rowid) FROM jobs WHERE kind IN ('upload', 'delete') GROUP BY collection"
    )
    return [row["collection"] for row in rows if row["state"] == "interrupted"]


def remember_sources(connection: sqlite3.Connection, collection: str, paths: Iterable[Path]) -> None:
    """Remember the absolute paths that a collection was indexed from."""
    now = time.time()
    connection.executemany(
        "INSERT OR IGNORE INTO sources (collection, path, added) VALUES (?, ?, ?)",
        [(collection, str(path), now) for path in paths],
    )


def sources(connection: sqlite3.Connection, collection: str) -> list[Path]:
    """The paths a collection was indexed from, in the order they were added."""
    rows = connection.execute("SELECT path FROM sources WHERE collection = ? ORDER BY added, path", (collection,))
    return [Path(row["path"]) for row in rows]


def forget_sources(connection: sqlite3.Connection, collection: str) -> None:
    """Forget where a collection came from."""
    connection.execute("DELETE FROM sources WHERE collection = ?", (collection,))


def _job(row: sqlite3.Row) -> Job:
    values = {name: row[name] for name in row.keys() if name not in _HIDDEN}  # noqa: SIM118
    return Job(**values, files=json.loads(row["files"]))
