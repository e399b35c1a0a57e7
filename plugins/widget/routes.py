"""The script that a web site loads, the page in its frame, and the questions from there.

The site's page can reach the frame and nothing in it. The key in the script tag is public, so only a reader's is taken.
The script and the page are absent until the settings name a site. Answers reach the frame as HTML of the one renderer
(`ui.safe_html`), which the chat page uses, too.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from markupsafe import Markup
from pydantic import Field
from starlette.responses import HTMLResponse, Response

from plugins.widget.settings import WidgetSettings
from server.api.dependencies import Service, StrictBody
from server.api.routes.conversations import HistoryMessage
from server.api.sse import EVENTS, TurnStream, event_bytes
from server.chat import ChatService, DoneEvent, Forbidden, Message, TurnRequest
from server.chat.running_turn import RunningTurn
from text.translation import LANGUAGES, speak, spoken, words
from ui.safe_html import link_target, render_markdown
from ui.templates import page
from ui.turns import TurnView

router = APIRouter(tags=["Widget"])
FOLDER = Path(__file__).parent


class ReadPage(StrictBody):
    """The page of the site that the visitor reads; its words are searched with, like those of an earlier question."""

    title: str = Field(max_length=200)
    heading: str = Field(default="", max_length=200, description="The heading above what is in view.")

    @property
    def words(self) -> str:
        """Both in one line."""
        return " › ".join(" ".join(part.split()) for part in (self.title, self.heading) if part.strip())


class WidgetTurn(StrictBody):
    """A question, and what was said before it."""

    question: str = Field(min_length=1, pattern=r"\S")
    collection: str = Field(default="", description="Empty: the default collection.")
    history: list[HistoryMessage] = Field(default=[], max_length=50, description="Oldest first.")
    page: ReadPage | None = None


def _demand_site(service: ChatService) -> None:
    """Raise Forbidden unless a site is named and the key is a reader's."""
    if not service.settings.of(WidgetSettings).origins:
        raise Forbidden("The widget is off; an operator names its sites with plugins.widget.origins.")
    who = service.principal
    if who.role != "reader" or not who.id.startswith("key:"):
        raise Forbidden(
            "The widget takes a key of the role reader alone: whoever sees the site can read it. Make one with "
            "`anaphora keys create NAME --role reader`."
        )


@router.post(
    "/v1/widget/turns",
    summary="Ask from the widget of a web site",
    response_class=Response,
    responses={200: {"description": "The events of a turn.", "content": {"text/event-stream": EVENTS}}},
)
async def ask(body: WidgetTurn, service: Service) -> Response:
    """Answer a question that is not kept. The event `shown` before `done` has the answer and its sources as HTML.

    Takes a key of the role `reader` alone, and only where sites are named.
    """
    _demand_site(service)
    history = [Message(message.role, message.text) for message in body.history]
    if body.page is not None and body.page.words:
        # Before the last exchange, so that "this" may mean the page, and "it" what was just spoken of.
        history.insert(max(0, len(history) - 2), Message("user", body.page.words))
    turn = await service.turns.begin(
        TurnRequest(question=body.question, collection=body.collection, history=tuple(history))
    )
    return TurnStream(turn, _events(turn, TurnView(turn.id, body.question, body.collection)))


async def _events(turn: RunningTurn, view: TurnView) -> AsyncIterator[bytes]:
    async for event in turn:
        view.add(event)
        if isinstance(event, DoneEvent):
            yield event_bytes(json.dumps(_shown(view)), "shown")
        yield event_bytes(event.model_dump_json(), event.type)


def _shown(view: TurnView) -> dict[str, Any]:
    sources: dict[int, dict[str, Any]] = {}
    for cited in view.citations:
        label = " › ".join((cited.title, *cited.heading))
        source = sources.setdefault(
            cited.n, {"n": cited.n, "number": view.numbers[cited.n], "label": label, "url": "", "quotes": []}
        )
        source["url"] = source["url"] or link_target(cited.url) or ""
        if (quote := str(render_markdown(cited.quote))) not in source["quotes"]:
            source["quotes"].append(quote)
    return {
        "type": "shown",
        "html": str(view.answer_html()),
        "sources": sorted(sources.values(), key=lambda source: source["number"]),
        "notices": [notice.text for notice in view.notices() if notice.kind != "refused"],
    }


@router.get("/v1/widget/questions", summary="Questions that the widget suggests")
async def questions(service: Service, collection: str = "") -> list[str]:
    """What can be asked first: the operator's questions, then headings that ask and are answered."""
    _demand_site(service)
    name = collection or await service.turns.default_collection()
    return [example.question for example in await service.turns.examples(name)]


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
        headers = {
            # Any page may load it, also with an `integrity` attribute; it holds nothing of anybody's.
            "Cross-Origin-Resource-Policy": "cross-origin",
            "Access-Control-Allow-Origin": "*",
            "Cache-Control": "public, max-age=3600",
        }
        return Response(_text("widget.js"), media_type="text/javascript", headers=headers)

    @pages.get("/widget")
    async def frame(lang: str = "") -> HTMLResponse:
        if lang in LANGUAGES:
            speak(lang)
        return page(
            FOLDER / "widget.html",
            {"connect-src": "'self'", "img-src": "https: data:", "frame-ancestors": " ".join(origins)},
            headers={},
            style=Markup(_text("widget.css")),
            words={text: said for text, said in words(spoken()).items() if f'"{text}"' in _text("frame.js")},
            sites=origins,
            script=Markup(_text("frame.js")),
        )

    app.include_router(pages)
