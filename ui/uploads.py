"""How far the work on uploads is. The page hands files to the API itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from server.chat import Job
from text.translation import gettext, message, ngettext
from ui.templates import render

_STATES = {
    "queued": message("waiting"),
    "failed": message("failed"),
    "cancelled": message("cancelled"),
    "interrupted": message("interrupted"),
}
_STAGES = (message("reading"), message("embedding"), message("saving"), message("indexing"))


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
        words = gettext(_STATES[job.state]) if job.state in _STATES else _outcome(job)
    elif job.total:
        stage = gettext(job.stage or "indexing")
        words = gettext("%(stage)s, %(done)s of %(total)s", stage=stage, done=f"{job.done:,}", total=f"{job.total:,}")
    else:
        words = gettext(job.stage or _STATES.get(job.state, "indexing"))
    problems = [f"{file.document_id}: {file.message}" for file in job.files if file.status == "failed"]
    if job.message and job.state in ("failed", "interrupted"):
        problems.insert(0, job.message)
    return ShownJob(name or job.kind, job.state, not job.finished, job.done, job.total, words, problems[:5])


def _outcome(job: Job) -> str:
    passages = sum(file.passages for file in job.files)
    if any(file.status == "failed" for file in job.files):
        return gettext("not indexed")
    if job.files and all(file.status == "unchanged" for file in job.files):
        return gettext("already there")
    if not passages:
        return gettext("done")
    return ngettext("ready, %(count)s passage", "ready, %(count)s passages", passages, count=f"{passages:,}")


def jobs_html(jobs: Sequence[tuple[Job, str]]) -> Markup:
    """The state of uploads, each with the name of its file."""
    return render("jobs.html", jobs=[shown(job, name) for job, name in jobs])
