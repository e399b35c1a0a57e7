"""The script that a web site loads, the page in its frame, and the questions from there.

The site's page can reach the frame and nothing in it. The key in the script tag is public, so only a reader's is taken.
The script and the page are absent until the settings name a site.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, FastAPI
from markupsafe import Markup
from pydantic import Field
from starlette.responses import HTMLResponse, Response

from plugins.widget.settings import WidgetSettings
from server.api.dependencies import Service, StrictBody
from server.api.routes.conversations import HistoryMessage, turn_events
from server.api.sse import EVENTS, TurnStream
from server.chat import ChatService, Forbidden, Message, TurnRequest
from text.translation import spoken, words
from ui.templates import page

router = APIRouter(tags=["Widget"])
FOLDER = Path(__file__).parent


class WidgetTurn(StrictBody):
    """A question, and what was said before it."""

    question: str = Field(min_length=1, pattern=r"\S")
    collection: str = Field(default="", description="Empty: the default collection.")
    history: list[HistoryMessage] = Field(default=[], max_length=50, description="Oldest first.")


@router.post(
    "/v1/widget/turns",
    summary="Ask from the widget of a web site",
    response_class=Response,
    responses={200: {"description": "The events of a turn.", "content": {"text/event-stream": EVENTS}}},
)
async def ask(body: WidgetTurn, service: Service) -> Response:
    """Answer a question that is not kept; with a key of the role `reader` alone, and where sites are named."""
    if not service.settings.of(WidgetSettings).origins:
        raise Forbidden("The widget is off; an operator names its sites with plugins.widget.origins.")
    who = service.principal
    if who.role != "reader" or not who.id.startswith("key:"):
        raise Forbidden(
            "The widget takes a key of the role reader alone: whoever sees the site can read it. Make one with "
            "`anaphora keys create NAME --role reader`."
        )
    turn = await service.turns.begin(
        TurnRequest(
            question=body.question,
            collection=body.collection,
            history=tuple(Message(message.role, message.text) for message in body.history),
        )
    )
    return TurnStream(turn, turn_events(turn))


def _text(name: str) -> str:
    return (FOLDER / name).read_text("utf-8")


def add_widget(app: FastAPI, service: ChatService) -> None:
    """Add `/widget.js` and `/widget` to the app, if the settings name sites."""
    origins = service.settings.of(WidgetSettings).origins
    if not origins:
        return
    pages = APIRouter(include_in_schema=False)

    @pages.get("/widget.js")
    async def script() -> Response:
        headers = {"Cross-Origin-Resource-Policy": "cross-origin", "Cache-Control": "public, max-age=3600"}
        return Response(_text("widget.js"), media_type="text/javascript", headers=headers)

    @pages.get("/widget")
    async def frame() -> HTMLResponse:
        return page(
            FOLDER / "widget.html",
            {"connect-src": "'self'", "frame-ancestors": " ".join(origins)},
            headers={},
            style=Markup(_text("widget.css")),
            words=words(spoken()),
            script=Markup(_text("frame.js")),
        )

    app.include_router(pages)
