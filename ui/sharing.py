"""A shared conversation as a page to read: no script, nothing to press, and nobody's key."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI, Request
from markupsafe import Markup
from starlette.responses import HTMLResponse

from server.chat import ChatService, NotFound
from ui.safe_html import render_markdown
from ui.templates import page, static


def add_shared(app: FastAPI, service: ChatService) -> None:
    """Put `/shared/SECRET` on the app."""
    router = APIRouter(include_in_schema=False)

    @router.get("/shared/{secret}")
    async def shared(secret: str, request: Request) -> HTMLResponse:
        try:
            title, text = await service.seen_by(request.scope["state"]["principal"]).shared(secret)
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
