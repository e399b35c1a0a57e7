"""The report of a measured run as a page of its own, opened from the workbench; of evaluations, two side by side.

The page is what the terminal writes (`evaluation.reports`): tables and plots, and nothing in it that could run.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import HTMLResponse

from server.chat import ChatService, RunGroup, Unavailable

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def add_reports(app: FastAPI, service: ChatService) -> None:
    """Put `/workbench/reports/GROUP/NAME` on the app, with `?before=NAME` for two evaluations."""
    router = APIRouter(include_in_schema=False)

    @router.get("/workbench/reports/{group}/{name}")
    async def report(group: RunGroup, name: str, request: Request, before: str = "") -> HTMLResponse:
        acting = service.seen_by(request.scope["state"]["principal"])
        folder = await acting.run_folder(group, name)
        compared = await acting.run_folder(group, before) if before else None
        page = await asyncio.to_thread(_report, folder, compared)
        return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY, "Cache-Control": "no-store"})

    app.include_router(router)


def _report(folder: Path, before: Path | None) -> str:
    from evaluation.errors import EvaluationError
    from evaluation.reports.page import html
    from evaluation.reports.runs import read_run
    from evaluation.reports.tables import compare
    from text.modules import MissingExtra

    written = folder / "report.html"
    try:
        if before is None and written.is_file():
            return written.read_text("utf-8")
        run = read_run(folder)
        return html(run, compare(read_run(before), run) if before else None)
    except (EvaluationError, MissingExtra) as error:
        raise Unavailable(str(error), code="no_report") from error
