"""The trace explorer: the calls of a turn as a tree or a table, with the details of each; two turns side by side.

A plain page of its own on the same port, for whoever may read traces. Texts of documents, people and models reach it as
JSON in an element that is no script; the script writes them as text alone.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Form, Request
from markupsafe import Markup
from starlette.responses import HTMLResponse

from server.chat import ChatService, Principal, ReplayChanges, Trace, differences, trace_calls
from ui.templates import page, static

_WEIGHT = re.compile(r"\d{1,4}(\.\d{0,6})?|\.\d{1,6}", re.ASCII)


def add_traces(app: FastAPI, service: ChatService) -> None:
    """Put `/traces/TURN_ID` on the app, `?with=OTHER_ID` for two side by side, and a form to play the turn again."""
    router = APIRouter()

    @router.get("/traces/{turn_id}", include_in_schema=False)
    async def explorer(turn_id: str, request: Request) -> HTMLResponse:
        principal: Principal = request.scope["state"]["principal"]
        acting = service.as_principal(principal)
        trace, other = await acting.turns.trace(turn_id), request.query_params.get("with")
        return _page(acting, trace, await acting.turns.trace(other) if other else None)

    @router.post("/traces/{turn_id}", include_in_schema=False)
    async def again(
        turn_id: str,
        request: Request,
        rewrite: Annotated[str, Form(max_length=4000)] = "",
        add: Annotated[str, Form(max_length=4000)] = "",
        drop: Annotated[str, Form(pattern=r"^[0-9 ,]{0,200}$")] = "",
        prompt: Annotated[str, Form(max_length=40_000)] = "",
        model: Annotated[str, Form(max_length=200)] = "",
        keep: Annotated[str, Form(max_length=200)] = "",
        answer: Annotated[str, Form(max_length=40_000)] = "",
    ) -> HTMLResponse:
        """The turn beside itself as it would be with one step changed; nothing of that is stored but the case that
        `keep` names a file for. Weights come in fields that are called as they are, `typed.lexical`."""
        acting = service.as_principal(request.scope["state"]["principal"])
        await acting.admin.admit()
        sent = {name: str(value) for name, value in (await request.form()).items()}
        changes = ReplayChanges(
            rewrite=rewrite.strip(),
            add=tuple(filter(None, map(str.strip, add.splitlines()))),
            drop=tuple(map(int, drop.replace(",", " ").split())),
            prompt=prompt.strip(),
            weights={name: float(weight) for name, weight in sent.items() if "." in name and _WEIGHT.fullmatch(weight)},
        )
        played = await acting.turns.replay(turn_id, changes, model)
        if keep:
            await acting.turns.keep_case(played, keep, answer.strip())
        return _page(acting, played.record, played.trace, sent)

    def _page(
        acting: ChatService, trace: Trace, right: Trace | None, sent: Mapping[str, str] | None = None
    ) -> HTMLResponse:
        if right is None:
            rows: list[dict[str, Any]] = [{"status": "", "left": call, "right": None} for call in trace_calls(trace)]
        else:
            changes = differences(trace, right)
            rows = [
                {"status": difference.status, "left": difference.left, "right": difference.right}
                for difference in changes
            ]
        # Within an element no text may end it.
        data = json.dumps(rows, ensure_ascii=False).replace("<", "\\u003c")
        return page(
            "trace.html",
            {"img-src": "'self'", "form-action": "'self'"},
            # Without a referrer a browser says of a form that its origin is "null", which is nobody's.
            headers={"Cache-Control": "no-store", "Referrer-Policy": "same-origin"},
            trace=trace,
            right=right,
            replayed=sent is not None,
            sent=defaultdict(str, sent or {}),
            weighed=any("." in name and value for name, value in (sent or {}).items()),
            variants=service.settings.retrieval.profile.variants.model_dump(),
            models=[*service.settings.llm.choices, "none"],
            cases=acting.admin.may("server"),
            calls=len(rows),
            data=Markup(data),
            style=Markup(static("trace.css")),
            script=Markup(static("trace.js")),
        )

    app.include_router(router)
