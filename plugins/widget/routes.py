"""The script that a web site loads, the page in its frame, and the questions from there.

The site's page can reach the frame and nothing in it. The key in the script tag is public, so only one that opens
nothing else is taken. The script and the page are absent until the settings name a site. Answers reach the frame as
HTML of the one renderer (`ui.safe_html`), which the chat page uses, too.
"""

from __future__ import annotations

import asyncio
import json
import pathlib
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, FastAPI, Path, Query, Request
from markupsafe import Markup
from pydantic import BaseModel, Field
from starlette.responses import HTMLResponse, Response

from index.documents import MetadataValue, Where
from index.loaders.addresses import spellings
from plugins.widget import WidgetSettings
from plugins.widget.visitors import VISITOR, count_form, count_turn, demand_site, for_visitor, forget
from server.api.dependencies import EVENTS, Narrowed, Service, StrictBody, TurnStream, event_bytes, while_connected
from server.chat import ChatService, DoneEvent, Message, TurnRequest
from server.chat.base import InvalidRequest, NotFound, clean, found_or_missing
from server.chat.conversations import MAX_COMMENT_CHARS
from server.chat.running_turn import RunningTurn
from server.plugins import Plugin, resolve, standing_messages, switched_on
from server.store import turns
from server.turn.answer import address_at
from server.turn.events import Evidence
from server.turn.evidence import best_sentences
from server.turn.search import ReadPage
from text.languages import LANGUAGES, everywhere, speak, spoken, words
from ui.calls import answered
from ui.safe_html import link_target, render_markdown
from ui.templates import page
from ui.turns import TurnView

router = APIRouter(tags=["Widget"])
FOLDER = pathlib.Path(__file__).parent
VisitorId = Annotated[str, Query(pattern=f"^({VISITOR})?$", description="The visitor's random text.")]
_READ, _SHOWN, _CHARS = 10, 5, 300
"""Passages read and sections shown while somebody types, and characters of one in which no sentence matches."""


class VisitorsPage(StrictBody):
    """The page of the site that the visitor reads.

    Its words are searched with, like those of an earlier question, and its passages are favoured.
    """

    url: str = Field(default="", max_length=2048, description="Its canonical address.")
    title: str = Field(max_length=200)
    heading: str = Field(default="", max_length=200, description="The heading above what is in view.")

    def read(self) -> ReadPage:
        """Return the page as a turn takes it."""
        addresses: list[MetadataValue] = [*spellings(self.url)]
        title, heading = (" ".join(part.split()) for part in (self.title, self.heading))
        within: tuple[Where, ...] = ({"source": addresses}, {"title": title}) if addresses else ({"title": title},)
        return ReadPage(" › ".join(filter(None, (title, heading))), within, str(addresses[0]) if addresses else "")


class WidgetTurn(StrictBody):
    """A question, and what was said before it."""

    visitor: str = Field(
        default="", pattern=f"^({VISITOR})?$", description="Names the visitor to whom the turn belongs."
    )

    question: str = Field(min_length=1, pattern=r"\S")
    collection: str = Field(default="", description="Empty: the default collection.")
    history: tuple[Message, ...] = Field(default=(), max_length=50, description="Oldest first.")
    page: VisitorsPage | None = None
    where: Where | None = Field(default=None, description="Only passages whose metadata has these values.")

    def request(self) -> TurnRequest:
        """Return the turn that is asked for."""
        asked = {name: value for name, value in self if name not in ("visitor", "page")}
        return TurnRequest(**asked, page=self.page.read() if self.page else None)


class VisitorsTurn(StrictBody):
    """A turn of a visitor."""

    visitor: str = Field(pattern=f"^{VISITOR}$")
    turn_id: str = Field(max_length=64)


class VisitorsPart(VisitorsTurn):
    """The part below it; with a `call`, the form there that is sent."""

    call: str = Field(default="", max_length=100, description="The call that the form names.")
    fields: dict[Annotated[str, Field(max_length=40)], bool | Annotated[str, Field(max_length=4000)]] = Field(
        default={}, max_length=10
    )


class Part(BaseModel):
    """HTML that stands below a turn."""

    html: str


class VisitorRating(VisitorsTurn):
    """A visitor's word on an answer to that visitor, which replaces an earlier one, or a source that was opened."""

    rating: Literal["up", "down"] | None = None
    comment: str = ""
    opened: int | None = Field(default=None, ge=1, description="The number of the source.")


class Welcome(BaseModel):
    """The metadata that a visitor can narrow a search by, as `where` takes it, and questions to begin with."""

    filters: dict[str, list[MetadataValue]]
    questions: list[str]


class FoundSection(BaseModel):
    """A section that fits what is typed: its headings, its sentence as HTML, and its live page if it has one."""

    label: str
    html: str
    url: str


@router.post(
    "/v1/widget/turns",
    summary="Ask from the widget of a web site",
    response_class=Response,
    responses={200: {"description": "The events of a turn.", "content": {"text/event-stream": EVENTS}}},
)
async def ask(body: WidgetTurn, service: Service) -> Response:
    """Answer a visitor's question. The event `shown` before `done` has the answer and its sources as HTML.

    The turn is kept as `plugins.widget.keep` says; `kept` of `shown` is false where it is not. Takes a key of the role
    `visitor` alone, and only where sites are named.
    """
    keep, visited = demand_site(service).keep, for_visitor(service, body.visitor)
    await count_turn(visited)
    turn = await visited.turns.begin(body.request().model_copy(update={"keep": keep}))
    return TurnStream(turn, _events(turn, TurnView(turn.id, body.question, body.collection), keep != "off"))


async def _events(turn: RunningTurn, view: TurnView, kept: bool) -> AsyncIterator[bytes]:
    async for event in turn:
        view.add(event)
        if isinstance(event, DoneEvent):
            yield event_bytes(json.dumps({**_shown(view), "kept": kept}), "shown")
        yield event_bytes(event.model_dump_json(), event.type)


def _shown(view: TurnView) -> dict[str, Any]:
    return {
        "type": "shown",
        "html": str(view.answer_html()),
        "sources": view.cited_sources(),
        "notices": [notice.text for notice in view.notices() if notice.kind != "refused"],
    }


@router.post("/v1/widget/feedback", status_code=204, summary="Rate an answer in the widget of a web site")
async def rate(body: VisitorRating, service: Service) -> None:
    """Keep what a visitor thinks of an answer, or opened of it; review and training read it like any other feedback."""
    visited = for_visitor(service, body.visitor)
    write, who = visited.core.database.write, visited.principal
    if body.opened is not None:
        noted = await write(turns.note_opened, body.turn_id, body.opened, who)
        found_or_missing(noted, f"source {body.opened} of turn", body.turn_id)
    if body.rating is not None:
        comment = clean(body.comment, MAX_COMMENT_CHARS, "comment")
        rating = await write(turns.rate, body.turn_id, body.rating, "", comment, who)
        found_or_missing(rating, "turn", body.turn_id)


@router.post("/v1/widget/parts", summary="Ask what stands below a turn of a visitor, or send a form there")
async def parts_below(body: VisitorsPart, service: Service) -> Part:
    """The HTML of plugins that serve visitors, such as the offer of a person; empty where they offer nothing.

    With a `call`, do what the form says, and answer the HTML that replaces it. `forms_per_hour` bounds it.
    """
    visited = for_visitor(service, body.visitor)
    if body.call:
        return await _send_form(visited, body)
    places = [(plugin, place) for plugin in _serving(service) for place in plugin.turn_parts]
    return Part(html="".join([str(await resolve(*place)(visited, body.turn_id)) for place in places]))


async def _send_form(visited: ChatService, body: VisitorsPart) -> Part:
    if not any(body.call in plugin.visitor_calls for plugin in _serving(visited)):
        raise NotFound("There is no such form.")
    await count_form(visited)
    answer = await answered(visited, body.call, {**body.fields, "turn": body.turn_id})
    if "error" in answer:
        raise InvalidRequest(answer["error"])
    return Part(html=answer["html"])


def _serving(service: ChatService) -> list[Plugin]:
    return [plugin for plugin in switched_on(service.settings.plugins) if plugin.visitor_calls]


@router.delete("/v1/widget/visitors/{visitor}", status_code=204, summary="Forget a visitor")
async def forget_visitor(
    visitor: Annotated[str, Path(description="The visitor's random text.", pattern=f"^{VISITOR}$")], service: Service
) -> None:
    """Delete what was kept of a visitor: turns, ratings, and what was handed over."""
    visited = for_visitor(service, visitor)
    await visited.core.database.write(forget, visited.principal)


@router.post("/v1/widget/search", summary="Search while a visitor of a web site types")
async def search(body: WidgetTurn, request: Request, service: Service) -> list[FoundSection]:
    """The sections that a turn would read, best first."""
    visited = for_visitor(service, body.visitor)
    await count_turn(visited, cost=1)
    result = await while_connected(request, visited.turns.search(body.request(), k=_READ))
    return await asyncio.to_thread(_sections, result.rewrite.text, result.passages)


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


@router.get("/v1/widget/welcome", summary="Filters and questions to begin with")
async def welcome(service: Service, where: Narrowed, collection: str = "", visitor: VisitorId = "") -> Welcome:
    """Return the values of what the operator named (`server.filters`), and questions: the operator's, then headings
    that ask and are answered, those cited most first.

    With a filter the questions keep to it, and count as a search.
    """
    visited = for_visitor(service, visitor)
    if where:
        await count_turn(visited, cost=1)
    name = collection or await visited.turns.default_collection()
    questions = [example.question for example in await visited.suggestions.examples(name, where)]
    return Welcome(filters=await visited.suggestions.filters(name), questions=questions)


def _text(name: str) -> str:
    return (FOLDER / name).read_text("utf-8")


def add_widget(app: FastAPI, service: ChatService) -> None:
    """Add `/widget.js` and `/widget` to the app, if the settings name sites."""
    own = service.settings.of(WidgetSettings)
    if not (origins := own.origins):
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
        labels = dict(zip(LANGUAGES, everywhere("Ask the documentation"), strict=True))
        text = _text("widget.js").replace("/* LABELS */ {}", json.dumps(labels))
        return Response(text, media_type="text/javascript", headers=headers)

    @pages.get("/widget")
    async def frame(lang: str = "") -> HTMLResponse:
        if lang in LANGUAGES:
            speak(lang)
        return page(
            FOLDER / "widget.html",
            {"connect-src": "'self'", "img-src": "https: data:", "frame-ancestors": " ".join(origins)},
            headers={},
            style=Markup(_text("widget.css")),
            words={text: label for text, label in words(spoken()).items() if f'"{text}"' in _text("frame.js")},
            sites=origins,
            standing=standing_messages(service.settings.plugins) if own.keep != "off" else [],
            script=Markup(_text("frame.js")),
        )

    app.include_router(pages)
