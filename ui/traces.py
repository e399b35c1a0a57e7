"""The trace explorer: the calls of a turn as a tree or a table, with the details of each; two turns side by side.

A plain page of its own on the same port, for whoever may read traces. What documents, people and models say reaches it
as JSON in an element that is no script; the script writes it as text alone.
"""

from __future__ import annotations

import json
import secrets
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Form, Request
from markupsafe import Markup
from starlette.responses import HTMLResponse

from server.chat import ChatService, Principal, ReplayChanges, Trace, differences, trace_calls
from ui.templates import render, static


def add_traces(app: FastAPI, service: ChatService) -> None:
    """Put `/traces/TURN_ID` on the app, `?with=OTHER_ID` for two side by side, and a form to play the turn again."""
    router = APIRouter()

    @router.get("/traces/{turn_id}", include_in_schema=False)
    async def explorer(turn_id: str, request: Request) -> HTMLResponse:
        principal: Principal = request.scope["state"]["principal"]
        acting = service.seen_by(principal)
        trace, other = await acting.trace(turn_id), request.query_params.get("with")
        return _page(trace, await acting.trace(other) if other else None)

    @router.post("/traces/{turn_id}", include_in_schema=False)
    async def again(
        turn_id: str,
        request: Request,
        rewrite: Annotated[str, Form(max_length=4000)] = "",
        add: Annotated[str, Form(max_length=4000)] = "",
        drop: Annotated[str, Form(pattern=r"^[0-9 ,]{0,200}$")] = "",
        prompt: Annotated[str, Form(max_length=40_000)] = "",
    ) -> HTMLResponse:
        """The turn beside itself as it would be with one step changed; nothing of that is stored."""
        acting = service.seen_by(request.scope["state"]["principal"])
        await acting.admit()
        changes = ReplayChanges(
            rewrite=rewrite.strip(),
            add=tuple(filter(None, map(str.strip, add.splitlines()))),
            drop=tuple(map(int, drop.replace(",", " ").split())),
            prompt=prompt.strip(),
        )
        played = await acting.replay(turn_id, changes)
        return _page(played.record, played.trace, replayed=True)

    def _page(trace: Trace, right: Trace | None, *, replayed: bool = False) -> HTMLResponse:
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
            replayed=replayed,
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
        # Without a referrer a browser says of a form that its origin is "null", which is nobody's.
        headers = {"Content-Security-Policy": policy, "Cache-Control": "no-store", "Referrer-Policy": "same-origin"}
        return HTMLResponse(page, headers=headers)

    app.include_router(router)
