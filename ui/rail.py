"""The rail: the list of conversations, grouped by day or searched, and the state of uploads, as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from markupsafe import Markup

from server.chat import ConversationSummary, Job
from text.translation import gettext, message, ngettext
from ui.templates import render


def _age(updated: float, now: datetime) -> str:
    day, today = datetime.fromtimestamp(updated).date(), now.date()
    if day >= today:
        return gettext("Today")
    if day == today - timedelta(days=1):
        return gettext("Yesterday")
    return gettext("Last seven days") if day > today - timedelta(days=7) else gettext("Earlier")


def grouped(conversations: Sequence[ConversationSummary], now: datetime) -> dict[str, list[ConversationSummary]]:
    """Newest first, under the names of their age in days (of this machine's clock)."""
    groups: dict[str, list[ConversationSummary]] = {}
    for conversation in sorted(conversations, key=lambda summary: summary.updated, reverse=True):
        groups.setdefault(_age(conversation.updated, now), []).append(conversation)
    return groups


def conversations_html(
    conversations: Sequence[ConversationSummary], query: str = "", *, all_changed: bool = True
) -> Markup:
    """The list; with `query`, what a search for it found, as one group. `all_changed`: also those of others may be
    renamed and deleted."""
    if query:
        groups = {gettext("Found"): list(conversations)} if conversations else {}
    else:
        groups = grouped(conversations, datetime.now())
    return render("conversations.html", groups=groups, query=query, all_changed=all_changed)


_STATES = {
    "queued": message("waiting"),
    "failed": message("failed"),
    "cancelled": message("cancelled"),
    "interrupted": message("interrupted"),
}
_STAGES = (message("reading"), message("embedding"), message("saving"), message("indexing"))


def job_words(job: Job) -> str:
    """The state of a job in words."""
    if job.finished:
        return gettext(_STATES[job.state]) if job.state in _STATES else _outcome(job)
    if job.total:
        stage = gettext(job.stage or "indexing")
        return gettext("%(stage)s, %(done)s of %(total)s", stage=stage, done=f"{job.done:,}", total=f"{job.total:,}")
    return gettext(job.stage or _STATES.get(job.state, "indexing"))


def job_problems(job: Job) -> list[str]:
    """Return the reason why a job failed, and its first failed files."""
    problems = [f"{file.document_id}: {file.message}" for file in job.files if file.status == "failed"]
    if job.message and job.state in ("failed", "interrupted"):
        problems.insert(0, job.message)
    return problems[:5]


def _outcome(job: Job) -> str:
    passages = sum(file.passages for file in job.files)
    if not passages and any(file.status == "failed" for file in job.files):
        return gettext("not indexed")
    if job.files and all(file.status == "unchanged" for file in job.files):
        return gettext("already there")
    if not passages:
        return gettext("done")
    return ngettext("ready, %(count)s passage", "ready, %(count)s passages", passages, count=f"{passages:,}")


def jobs_html(jobs: Sequence[tuple[Job, str]]) -> Markup:
    """The state of uploads, each with the name of its file."""
    return render("jobs.html", jobs=[(job, name, job_words(job), job_problems(job)) for job, name in jobs])
