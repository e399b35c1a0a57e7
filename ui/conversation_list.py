"""The list of conversations: grouped by day, searched, as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fastapi import APIRouter, FastAPI, Request
from markupsafe import Markup
from starlette.responses import HTMLResponse

from server.chat import ChatService, ConversationSummary, Job, NotFound
from text.translation import gettext, message, ngettext
from ui.safe_html import render_markdown
from ui.templates import page, render, static


@dataclass(frozen=True, slots=True)
class Group:
    """Conversations of one stretch of time."""

    name: str
    entries: list[ConversationSummary]


def _age(updated: float, now: datetime) -> str:
    day, today = datetime.fromtimestamp(updated).date(), now.date()
    if day >= today:
        return gettext("Today")
    if day == today - timedelta(days=1):
        return gettext("Yesterday")
    return gettext("Last seven days") if day > today - timedelta(days=7) else gettext("Earlier")


def grouped(conversations: Sequence[ConversationSummary], now: datetime) -> list[Group]:
    """Newest first, under the names of their age in days (of this machine's clock)."""
    groups: dict[str, list[ConversationSummary]] = {}
    for conversation in sorted(conversations, key=lambda summary: summary.updated, reverse=True):
        groups.setdefault(_age(conversation.updated, now), []).append(conversation)
    return [Group(name, entries) for name, entries in groups.items()]


def conversations_html(
    conversations: Sequence[ConversationSummary], query: str = "", *, all_changed: bool = True
) -> Markup:
    """The list; with `query`, what a search for it found, as one group. `all_changed`: also those of others may be
    renamed and deleted."""
    if query:
        groups = [Group(gettext("Found"), list(conversations))] if conversations else []
    else:
        groups = grouped(conversations, datetime.now())
    return render("conversations.html", groups=groups, query=query, all_changed=all_changed)


def add_shared(app: FastAPI, service: ChatService) -> None:
    """Put `/shared/SECRET` on the app."""
    router = APIRouter(include_in_schema=False)

    @router.get("/shared/{secret}")
    async def shared(secret: str, request: Request) -> HTMLResponse:
        try:
            title, text = await service.as_principal(request.scope["state"]["principal"]).conversations.open_shared(
                secret
            )
        except NotFound:
            title = text = ""
        return page(
            "shared.html",
            {"script-src": "'none'"},
            status=200 if text else 404,
            headers={"Cache-Control": "no-store", "X-Robots-Tag": "noindex"},
            title=title,
            body=render_markdown(text),
            style=Markup(static("text.css") + static("shared.css")),
        )

    app.include_router(router)


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
