"""The workbench: pages for support agents and operators beside the chat, one tab at an address of its own each.

A tab is one row of `TABS`, a template `pages/workbench_NAME.html` that extends `workbench.html` and fills its block
`content`, and a script `static/workbench_NAME.js`. The page itself holds nobody's content: its script asks the HTTP API
(`bench.api` of `static/workbench.js`), which decides who may see what, and writes what it hears with `textContent`. A
further tab is also named in `tests/server/test_access_walk.py`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI, Request
from markupsafe import Markup
from starlette.responses import HTMLResponse, RedirectResponse

from server.chat import Action, ChatService, RunGroup, Unavailable
from server.plugins import workbench_files
from ui.templates import page, static

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


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


def add_workbench(app: FastAPI, service: ChatService) -> None:
    """Put `/workbench` on the app, which leads to its first tab, and every tab."""
    router = APIRouter(include_in_schema=False)

    @router.get("/workbench")
    async def first() -> RedirectResponse:
        return RedirectResponse(f"/workbench/{TABS[0].name}", 303)

    for tab in TABS:
        router.add_api_route(f"/workbench/{tab.name}", _page(service, tab), methods=["GET"])
    app.include_router(router)


def _page(service: ChatService, tab: Tab) -> Callable[[Request], Awaitable[HTMLResponse]]:
    async def shown(request: Request) -> HTMLResponse:
        acting = service.as_principal(request.scope["state"]["principal"])
        acting.admin.demand(tab.needs)
        return page(
            f"workbench_{tab.name}.html",
            {"img-src": "'self' data:", "connect-src": "'self'"},
            tab=tab,
            tabs=[tab for tab in TABS if acting.admin.may(tab.needs)],
            style=Markup(static("page.css") + static("workbench.css")),
            plugins=Markup(workbench_files(tab.name, ".html")),
            script=Markup(
                static("page.js")
                + static("workbench.js")
                + static(f"workbench_{tab.name}.js")
                + workbench_files(tab.name, ".js")
            ),
        )

    return shown


_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def add_reports(app: FastAPI, service: ChatService) -> None:
    """Put `/workbench/reports/GROUP/NAME` on the app, with `?before=NAME` for two evaluations."""
    router = APIRouter(include_in_schema=False)

    @router.get("/workbench/reports/{group}/{name}")
    async def report(group: RunGroup, name: str, request: Request, before: str = "") -> HTMLResponse:
        acting = service.as_principal(request.scope["state"]["principal"])
        folder = await acting.admin.run_folder(group, name)
        compared = await acting.admin.run_folder(group, before) if before else None
        page = await asyncio.to_thread(_report, folder, compared)
        return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY, "Cache-Control": "no-store"})

    app.include_router(router)


def _report(folder: Path, before: Path | None) -> str:
    from evaluation.questions import EvaluationError
    from evaluation.report import compare, html
    from evaluation.run_folder import read_run
    from text.modules import MissingExtra

    written = folder / "report.html"
    try:
        if before is None and written.is_file():
            return written.read_text("utf-8")
        run = read_run(folder)
        return html(run, compare(read_run(before), run) if before else None)
    except (EvaluationError, MissingExtra) as error:
        raise Unavailable(str(error), code="no_report") from error
