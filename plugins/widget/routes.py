"""Asking from the widget of a web site, whose key everybody who sees the site can read."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from plugins.widget.settings import WidgetSettings
from server.api.dependencies import Service, StrictBody
from server.api.routes.conversations import turn_events
from server.api.routes.search import HistoryMessage
from server.api.sse import EVENTS, TurnStream
from server.chat import Forbidden, Message, TurnRequest

router = APIRouter(tags=["Widget"])


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
