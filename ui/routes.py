"""Pages beside the chat: the workbench with its reports, the trace explorer, shared conversations.

A tab of the workbench is one row of `TABS`, a template `pages/workbench_NAME.html` that extends `workbench.html` and
fills its block `content`, and a script `static/workbench_NAME.js`. The page itself holds nobody's content: its script
asks the HTTP API (`bench.api` of `static/workbench.js`), which decides who may see what, and writes what it hears with
`textContent`. A further tab is also named in `tests/server/test_access_walk.py`. The trace explorer gets texts of
documents, people and models as JSON in an element that is no script; its script writes them as text alone.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Form, Request
from markupsafe import Markup
from pydantic import BaseModel, Field, StringConstraints
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Scope

from server.api.dependencies import Service
from server.chat import (
    Action,
    ChatService,
    NotFound,
    ReplayChanges,
    RunGroup,
    Trace,
    Unavailable,
    calls,
    differences,
)
from server.plugins import workbench_files
from text.languages import gettext, message, spoken, words
from text.modules import MissingExtra
from ui.safe_html import LONGEST, render_markdown
from ui.templates import NO_STORE, page, static
from ui.turns import TurnView

router = APIRouter(include_in_schema=False)


@router.get("/locale.js")
async def locale() -> Response:
    """The page's words in the language of the request, for its scripts."""
    catalogue = json.dumps(words(spoken()), ensure_ascii=False)
    script = f'window.anaphoraLanguage = "{spoken()}"; window.anaphoraWords = {catalogue};'
    return Response(script, media_type="text/javascript", headers=dict(NO_STORE))


@router.get("/shared/{secret}")
async def shared_conversation(secret: str, service: Service) -> HTMLResponse:
    """A conversation as anybody with the link reads it."""
    try:
        shared = await service.conversations.open_shared(secret)
    except NotFound:
        shared = None
    turns = [TurnView.of(turn, ratable=False, own=False) for turn in shared.messages] if shared else []
    for n, turn in enumerate(turns, 1):
        turn.anchors = f"source-{n}"
    return page(
        "shared.html",
        {"script-src": "'none'"},
        status=200 if shared else 404,
        headers={**NO_STORE, "X-Robots-Tag": "noindex"},
        shared=shared,
        turns=turns,
        style=static("page.css", "workbench.css", "prose.css", "text.css", "shared.css"),
    )


_HEADINGS = {
    401: message("Sign in first"),
    403: message("This is not open to you"),
    404: message("There is nothing here"),
    429: message("Too many requests"),
}
_FAILED = message("That did not work")
_NOT_FOUND = message("The address is wrong, or what stood there was deleted, moved or has expired.")


def error_page(service: ChatService) -> Callable[[Scope, int, str, Mapping[str, str]], Response]:
    """Return what makes a page of an error: request, status, words for a program (English) and headers that stay.

    The API's outermost guards answer before: who has no key yet is led to the sign-in, which has a page of its own.
    """
    changeable = service.settings.needs_sign_in

    def show(scope: Scope, status: int, told: str, headers: Mapping[str, str]) -> Response:
        return page(
            "error.html",
            {"img-src": "'self' data:"},
            status=status,
            headers={**NO_STORE, **headers},
            heading=gettext(_HEADINGS.get(status, _FAILED)),
            explanation=gettext(_NOT_FOUND) if status == 404 else "",
            # A phrase of HTTP tells nobody anything.
            told="" if told.removesuffix(".") == HTTPStatus(status).phrase else told,
            sign_in=f"/login?next={quote(scope['path'])}" if changeable and status in (401, 403) else "",
            style=static("page.css", "workbench.css"),
            script=static("page.js"),
        )

    return show


@dataclass(frozen=True, slots=True)
class Tab:
    """One page of the workbench: its address below `/workbench/`, its title, and what the role must allow."""

    name: str
    title: str
    needs: Action


TABS = (
    Tab("review", "Review", "review"),
    Tab("documents", "Documents", "documents"),
    Tab("runs", "Runs", "server"),
    Tab("health", "Health", "review"),
)
"""In the order they are shown."""


@router.get("/workbench")
async def first_tab() -> RedirectResponse:
    return RedirectResponse(f"/workbench/{TABS[0].name}", 303)


def _tab(tab: Tab) -> Callable[[Service], Awaitable[HTMLResponse]]:
    async def shown(service: Service) -> HTMLResponse:
        service.admin.demand(tab.needs)
        return page(
            f"workbench_{tab.name}.html",
            {"img-src": "'self' data:", "connect-src": "'self'"},
            tab=tab,
            tabs=[tab for tab in TABS if service.admin.may(tab.needs)],
            style=static("page.css", "prose.css", "workbench.css"),
            plugins=Markup(workbench_files(tab.name, ".html", service.settings.plugins)),
            script=static("page.js", "workbench.js", f"workbench_{tab.name}.js")
            + Markup(workbench_files(tab.name, ".js", service.settings.plugins)),
        )

    return shown


for _row in TABS:
    router.add_api_route(f"/workbench/{_row.name}", _tab(_row), methods=["GET"])


class Passages(BaseModel):
    """Texts of passages that a tab of the workbench shows."""

    texts: Annotated[list[Annotated[str, StringConstraints(max_length=LONGEST)]], Field(max_length=200)]


@router.post("/workbench/passages")
async def passages(body: Passages, service: Service) -> list[str]:
    """The passages as safe HTML, in their order: a script has no way of its own to make HTML of a text."""
    service.admin.demand("review")
    return await asyncio.to_thread(lambda: [str(render_markdown(text)) for text in body.texts])


_REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@router.get("/workbench/reports/{group}/{name}")
async def report(group: RunGroup, name: str, service: Service, before: str = "") -> HTMLResponse:
    """The report of an evaluation, or of two with `?before=NAME`."""
    folder = await service.admin.run_folder(group, name)
    compared = await service.admin.run_folder(group, before) if before else None
    text = await asyncio.to_thread(_report, folder, compared)
    return HTMLResponse(text, headers={"Content-Security-Policy": _REPORT_POLICY, **NO_STORE})


def _report(folder: Path, before: Path | None) -> str:
    from evaluation.questions import EvaluationError
    from evaluation.report import compare, html
    from evaluation.run_folder import read_run

    written = folder / "report.html"
    try:
        if before is None and written.is_file():
            return written.read_text("utf-8")
        run = read_run(folder)
        return html(run, compare(read_run(before), run) if before else None)
    except (EvaluationError, MissingExtra) as error:
        raise Unavailable(str(error), code="no_report") from error


@router.get("/traces/{turn_id}")
async def explore_trace(turn_id: str, request: Request, service: Service) -> HTMLResponse:
    """The calls of a turn as a tree or a table, with the details of each; `?with=OTHER_ID` for two side by side."""
    trace, other = await service.turns.trace(turn_id), request.query_params.get("with")
    return _trace_page(service, trace, await service.turns.trace(other) if other else None)


@router.post("/traces/{turn_id}")
async def replay_turn(
    turn_id: str,
    request: Request,
    service: Service,
    rewrite: Annotated[str, Form(max_length=4000)] = "",
    add: Annotated[str, Form(max_length=4000)] = "",
    drop: Annotated[str, Form(pattern=r"^[0-9 ,]{0,200}$")] = "",
    prompt: Annotated[str, Form(max_length=40_000)] = "",
    model: Annotated[str, Form(max_length=200)] = "",
) -> HTMLResponse:
    """The turn beside itself as it would be with one step changed; nothing of that is stored."""
    await service.admin.admit()
    sent = {name: str(value) for name, value in (await request.form()).items()}
    changes = ReplayChanges(
        rewrite=rewrite.strip(),
        add=tuple(filter(None, map(str.strip, add.splitlines()))),
        drop=tuple(map(int, drop.replace(",", " ").split())),
        prompt=prompt.strip(),
    )
    played = await service.turns.replay(turn_id, changes, model)
    return _trace_page(service, played.record, played.trace, sent)


def _trace_page(
    service: Service, trace: Trace, right: Trace | None, sent: Mapping[str, str] | None = None
) -> HTMLResponse:
    rows: list[dict[str, Any]]
    if right is None:
        rows = [{"status": "", "left": call, "right": None} for call in calls(trace)]
    else:
        rows = [{"status": row.status, "left": row.left, "right": row.right} for row in differences(trace, right)]
    # Within an element no text may end it.
    data = json.dumps(rows, ensure_ascii=False).replace("<", "\\u003c")
    return page(
        "trace.html",
        {"img-src": "'self'", "form-action": "'self'"},
        # Without a referrer a browser says of a form that its origin is "null", which is nobody's.
        headers={**NO_STORE, "Referrer-Policy": "same-origin"},
        trace=trace,
        right=right,
        replayed=sent is not None,
        sent=defaultdict(str, sent or {}),
        models=[*service.settings.llm.choices, "none"],
        calls=len(rows),
        data=Markup(data),
        style=static("page.css", "workbench.css", "trace.css"),
        script=static("page.js", "trace.js"),
    )
