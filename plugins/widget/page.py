"""The script that a web site loads, and the page in its frame.

The site's page can reach the frame and nothing in it. The key in the script tag is public, so only a reader's is taken.
Both paths are absent until the settings name a site.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, FastAPI
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from plugins.widget.settings import WidgetSettings
from server.chat import ChatService
from text.translation import spoken, words
from ui.templates import page

FOLDER = Path(__file__).parent


def _text(name: str) -> str:
    return (FOLDER / name).read_text("utf-8")


def add_widget(app: FastAPI, service: ChatService) -> None:
    """Add `/widget.js` and `/widget` to the app, if the settings name sites."""
    origins = service.settings.of(WidgetSettings).origins
    if not origins:
        return
    router = APIRouter(include_in_schema=False)

    @router.get("/widget.js")
    async def script() -> Response:
        headers = {"Cross-Origin-Resource-Policy": "cross-origin", "Cache-Control": "public, max-age=3600"}
        return Response(_text("widget.js"), media_type="text/javascript", headers=headers)

    @router.get("/widget")
    async def frame() -> HTMLResponse:
        return page(
            FOLDER / "widget.html",
            {"connect-src": "'self'", "frame-ancestors": " ".join(origins)},
            headers={},
            style=Markup(_text("widget.css")),
            words=words(spoken()),
            script=Markup(_text("frame.js")),
        )

    app.include_router(router)
