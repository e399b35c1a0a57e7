"""The script that a web site loads, the page in its frame, and the questions from there.

The site's page can reach the frame and nothing in it. The key in the script tag is public, so only a reader's is taken.
The script and the page are absent until the settings name a site. Answers reach the frame as HTML of the one renderer
(`ui.safe_html`), which the chat page uses, too.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

from fastapi import APIRouter, FastAPI, Request
from markupsafe import Markup
from pydantic import BaseModel, Field
from starlette.responses import HTMLResponse, Response

from index.documents import MetadataValue
from index.loaders.addresses import address_at
from index.query import Where
from plugins.widget.settings import WidgetSettings
from server.api.dependencies import Service, StrictBody
from server.api.routes.conversations import HistoryMessage
from server.api.sse import EVENTS, TurnStream, event_bytes, while_connected
from server.chat import ChatService, DoneEvent, Forbidden, Message, TurnRequest
from server.chat.error_mapping import clean, found_or_missing
from server.chat.running_turn import RunningTurn
from server.chat.turns import MAX_COMMENT_CHARS
from server.store import turns
from server.turn.events import Evidence
from server.turn.evidence import best_sentences
from text.translation import LANGUAGES, speak, spoken, words
from ui.safe_html import link_target, render_markdown
from ui.templates import page
from ui.turns import TurnView

router = APIRouter(tags=["Widget"])
FOLDER = Path(__file__).parent
_READ, _SHOWN, _CHARS = 10, 5, 300
"""Passages read and sections shown while somebody types, and characters of one in which no sentence matches."""


class ReadPage(StrictBody):
    """The page of the site that the visitor reads; its words are searched with, like those of an earlier question."""

    title: str = Field(max_length=200)
    heading: str = Field(default="", max_length=200, description="The heading above what is in view.")

    @property
    def words(self) -> str:
        """Both in one line."""
        return " › ".join(" ".join(part.split()) for part in (self.title, self.heading) if part.strip())


VISITOR = "[A-Za-z0-9-]{16,64}"
"""A text that the browser of a visitor chose at random. Nothing else is known of the visitor."""


class WidgetTurn(StrictBody):
    """A question, and what was said before it."""

    visitor: str = Field(
        default="", pattern=f"^({VISITOR})?$", description="Names the visitor to whom the turn belongs."
    )

    question: str = Field(min_length=1, pattern=r"\S")
    collection: str = Field(default="", description="Empty: the default collection.")
    history: list[HistoryMessage] = Field(default=[], max_length=50, description="Oldest first.")
    page: ReadPage | None = None
    where: Where | None = Field(default=None, description="Only passages whose metadata has these values.")

    def messages(self) -> tuple[Message, ...]:
        """Return what was said, with the page before the last exchange: "this" may mean it, "it" the last answer."""
        history = [Message(message.role, message.text) for message in self.history]
        if self.page is not None and self.page.words:
            history.insert(max(0, len(history) - 2), Message("user", self.page.words))
        return tuple(history)


class VisitorRating(StrictBody):
    """A visitor's word on an answer to that visitor; a second one replaces the first."""

    visitor: str = Field(pattern=f"^{VISITOR}$")
    turn_id: str = Field(max_length=64)
    rating: Literal["up", "down"]
    comment: str = ""


class FoundSection(BaseModel):
    """A section that fits what is typed: its headings, its sentence as HTML, and its live page if it has one."""

    label: str
    html: str
    url: str


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


def _for_visitor(service: ChatService, visitor: str) -> ChatService:
    """Return the service for a visitor: turns are the visitor's, rights and limits those of the site's key."""
    _demand_site(service)
    if not visitor:
        return service
    pseudonym = hashlib.blake2b(visitor.encode(), digest_size=8).hexdigest()
    return service.as_principal(service.principal.for_visitor(pseudonym))


@router.post(
    "/v1/widget/turns",
    summary="Ask from the widget of a web site",
    response_class=Response,
    responses={200: {"description": "The events of a turn.", "content": {"text/event-stream": EVENTS}}},
)
async def ask(body: WidgetTurn, service: Service) -> Response:
    """Answer a visitor's question. The event `shown` before `done` has the answer and its sources as HTML.

    The turn is kept with its trace (`trace.days`), its texts where `trace.content` keeps them. Takes a key of the role
    `reader` alone, and only where sites are named.
    """
    turn = await _for_visitor(service, body.visitor).turns.begin(
        TurnRequest(question=body.question, collection=body.collection, history=body.messages(), where=body.where)
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


@router.post("/v1/widget/feedback", status_code=204, summary="Rate an answer in the widget of a web site")
async def rate(body: VisitorRating, service: Service) -> None:
    """Keep what a visitor thinks of an answer; review and training read it like any other feedback."""
    visited = _for_visitor(service, body.visitor)
    comment = clean(body.comment, MAX_COMMENT_CHARS, "comment")
    kept = await visited.core.database.write(turns.rate, body.turn_id, body.rating, "", comment, visited.principal)
    found_or_missing(kept, "turn", body.turn_id)


@router.post("/v1/widget/search", summary="Search while a visitor of a web site types")
async def search(body: WidgetTurn, request: Request, service: Service) -> list[FoundSection]:
    """The sections that a turn would read, best first."""
    found = await while_connected(
        request,
        _for_visitor(service, body.visitor).turns.search(
            body.question, collection=body.collection, history=body.messages(), k=_READ, where=body.where
        ),
    )
    return await asyncio.to_thread(_sections, found.rewrite.text, found.passages)


def _sections(question: str, passages: list[Evidence]) -> list[FoundSection]:
    sections: dict[tuple[str, ...], FoundSection] = {}
    for passage in passages:
        headings = (passage.document_id, passage.title, *passage.heading)
        if headings in sections or len(sections) == _SHOWN:
            continue
        fitting = best_sentences(question, [passage])
        quote = fitting[0].quote if fitting else passage.text[:_CHARS]
        sections[headings] = FoundSection(
            label=" › ".join(headings[1:]),
            html=str(render_markdown(quote)),
            url=link_target(address_at(passage.source, quote, passage.page)) or "",
        )
    return list(sections.values())


@router.get("/v1/widget/filters", summary="Metadata that a visitor can narrow a search by")
async def filters(service: Service, collection: str = "") -> dict[str, list[MetadataValue]]:
    """The values of what the operator named (`server.filters`), as `where` takes them."""
    _demand_site(service)
    return await service.turns.filters(collection or await service.turns.default_collection())


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
