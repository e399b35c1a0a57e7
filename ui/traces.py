"""The trace explorer: the calls of a turn as a tree or a table, with the details of each; two turns side by side.

A plain page of its own on the same port, for whoever may read traces. What documents, people and models say reaches it
as JSON in an element that is no script; the script writes it as text alone.
"""

from __future__ import annotations

import json
import secrets
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from markupsafe import Markup
from starlette.responses import HTMLResponse

from server.chat import ChatService, Principal, differences, trace_calls
from ui.templates import render, static


def add_traces(app: FastAPI, service: ChatService) -> None:
    """Put `/traces/TURN_ID` on the app, and `/traces/TURN_ID?with=OTHER_ID` for two side by side."""
    router = APIRouter()

    @router.get("/traces/{turn_id}", include_in_schema=False)
    async def explorer(turn_id: str, request: Request) -> HTMLResponse:
        principal: Principal = request.scope["state"]["principal"]
        acting = service.seen_by(principal)
        trace, other = await acting.trace(turn_id), request.query_params.get("with")
        right = await acting.trace(other) if other else None
        if right is None:
            rows: list[dict[str, Any]] = [{"status": "", "left": call, "right": None} for call in trace_calls(trace)]
        else:
            found = differences(trace, right)
            rows = [{"status": one.status, "left": one.left, "right": one.right} for one in found]
        nonce = secrets.token_urlsafe(16)
        # Within an element no text may end it.
        data = json.dumps(rows, ensure_ascii=False).replace("<", "\\u003c")
        page = render(
            "trace.html",
            trace=trace,
            right=right,
            calls=len(rows),
            nonce=nonce,
            data=Markup(data),
            style=Markup(static("trace.css")),
            script=Markup(static("trace.js")),
        )
        policy = (
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src 'self'; "
            "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
        )
        return HTMLResponse(page, headers={"Content-Security-Policy": policy, "Cache-Control": "no-store"})

    app.include_router(router)
