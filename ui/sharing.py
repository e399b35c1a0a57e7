"""A shared conversation as a page to read: no script, nothing to press, and nobody's key."""

from __future__ import annotations

import secrets

from fastapi import APIRouter, FastAPI, Request
from markupsafe import Markup
from starlette.responses import HTMLResponse

from server.chat import ChatService, NotFound
from ui.safe_html import render_markdown
from ui.templates import render, static


def add_shared(app: FastAPI, service: ChatService) -> None:
    """Put `/shared/SECRET` on the app."""
    router = APIRouter(include_in_schema=False)

    @router.get("/shared/{secret}")
    async def shared(secret: str, request: Request) -> HTMLResponse:
        try:
            title, text = await service.seen_by(request.scope["state"]["principal"]).shared(secret)
        except NotFound:
            title = text = ""
        nonce = secrets.token_urlsafe(16)
        page = render(
            "shared.html",
            title=title,
            body=render_markdown(text),
            nonce=nonce,
            style=Markup(static("text.css") + static("shared.css")),
        )
        policy = (
            f"default-src 'none'; style-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'"
        )
        headers = {"Content-Security-Policy": policy, "Cache-Control": "no-store", "X-Robots-Tag": "noindex"}
        return HTMLResponse(page, 200 if text else 404, headers=headers)

    app.include_router(router)
