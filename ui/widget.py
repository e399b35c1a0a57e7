"""The chat of a web site: one script tag puts a button on a page, which opens our own small page in a frame.

What the site's page can reach is the frame and nothing in it; which sites may show it is a setting. The key that the
tag holds is public, so a reader's is the only one taken. Off until sites are named.
"""

from __future__ import annotations

from fastapi import APIRouter, FastAPI
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from server.chat import ChatService
from text.translation import spoken, words
from ui.templates import page, static


def add_widget(app: FastAPI, service: ChatService) -> None:
    """Put `/widget.js` and `/widget` on the app, where the settings name sites."""
    origins = service.settings.server.widget_origins
    if not origins:
        return
    router = APIRouter(include_in_schema=False)

    @router.get("/widget.js")
    async def script() -> Response:
        headers = {"Cross-Origin-Resource-Policy": "cross-origin", "Cache-Control": "public, max-age=3600"}
        return Response(static("widget.js"), media_type="text/javascript", headers=headers)

    @router.get("/widget")
    async def frame() -> HTMLResponse:
        return page(
            "widget.html",
            {"connect-src": "'self'", "frame-ancestors": " ".join(origins)},
            headers={},
            style=Markup(static("widget.css")),
            words=words(spoken()),
            script=Markup(static("widget_frame.js")),
        )

    app.include_router(router)
