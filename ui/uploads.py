"""How far the work on uploads is. The page hands files to the API itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from server.chat import Job
from ui.templates import plural, render

_STATES = {"queued": "waiting", "failed": "failed", "cancelled": "cancelled", "interrupted": "interrupted"}


@dataclass(frozen=True, slots=True)
class ShownJob:
    """A job in words."""

    name: str
    state: str
    running: bool
    done: int
    total: int
    words: str
    messages: list[str]


def shown(job: Job, name: str = "") -> ShownJob:
    """A job as the page shows it."""
    if job.finished:
        words = _STATES.get(job.state) or _outcome(job)
    elif job.total:
        words = f"{job.stage or 'indexing'}, {job.done:,} of {job.total:,}"
    else:
        words = job.stage or _STATES.get(job.state, "indexing")
    problems = [f"{file.document_id}: {file.message}" for file in job.files if file.status == "failed"]
    if job.message and job.state in ("failed", "interrupted"):
        problems.insert(0, job.message)
    return ShownJob(name or job.kind, job.state, not job.finished, job.done, job.total, words, problems[:5])


def _outcome(job: Job) -> str:
    passages = sum(file.passages for file in job.files)
    if any(file.status == "failed" for file in job.files):
        return "not indexed"
    if job.files and all(file.status == "unchanged" for file in job.files):
        return "already there"
    return f"ready, {plural(passages, 'passage')}" if passages else "done"


def jobs_html(jobs: Sequence[tuple[Job, str]]) -> Markup:
    """The state of uploads, each with the name of its file."""
    return render("jobs.html", jobs=[shown(job, name) for job, name in jobs])
