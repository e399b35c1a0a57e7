"""What the page may ask the server for beside answers: lists, documents, ratings, uploads.

Each call takes one JSON object and gives one back; a refused one gives `{"error": ...}` with the
remedy in words. Inputs are checked here, the work is the service's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from server.chat import ChatError, ChatService, CollectionSummary, ConversationDetail, NotFound, Rating
from text.translation import gettext
from ui.conversations import conversations_html
from ui.sources import read, readable_html, why_html
from ui.templates import render
from ui.turns import TurnView
from ui.uploads import jobs_html

Answer: TypeAlias = dict[str, Any]
Call: TypeAlias = Callable[[object], Awaitable[Answer]]


_BY_SESSION = ("key:", "oidc:")
"""How ids of principals begin whom a session let in, which they can end: no proxy did, and this machine is not one."""


class _Asked(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Search(_Asked):
    query: str = ""


class _Named(_Asked):
    id: str


class _Versioned(_Named):
    turn: str


class _Chosen(_Named):
    model: str


class _Rename(_Named):
    title: str = Field(min_length=1, max_length=200)


class _Place(_Asked):
    collection: str
    document: str
    start: int = 0
    end: int = 0
    part: str = ""


class _Following(_Asked):
    collection: str
    document: str
    text: str = Field(max_length=6000)
    at: int = 0


class _Why(_Asked):
    turn: str
    n: int
    at: int = 0
    form: Literal["quoted", "written"] = "quoted"


class _Rate(_Asked):
    turn: str
    rating: Rating | None
    reason: str = ""
    comment: str = ""


class _Jobs(_Asked):
    jobs: dict[str, str] = Field(max_length=50)


class Calls:
    """The calls of one mounted page. Each method's name is its name in the page's scripts."""

    def __init__(self, service: ChatService) -> None:
        self._service = service

    async def list_conversations(self, data: object) -> Answer:
        """`{query}` → `{html}`."""
        query = _Search.model_validate(data).query.strip()
        found = await self._service.conversations(query or None, limit=200)
        return {"html": str(conversations_html(found, query, all_changed=self._service.may("change_any")))}

    async def open_conversation(self, data: object) -> Answer:
        """`{id}` → `{id, title, collection, model, own, turns: [{turn, html, sources}]}`; `own`: it may be gone on
        with."""
        return self._opened(await self._service.conversation(_Named.model_validate(data).id))

    async def show_version(self, data: object) -> Answer:
        """`{id, turn}` → as `open_conversation`, with that version of the turn and what followed it."""
        asked = _Versioned.model_validate(data)
        return self._opened(await self._service.show_version(asked.id, asked.turn))

    def _opened(self, detail: ConversationDetail) -> Answer:
        own, ratable = detail.own or self._service.may("change_any"), self._service.may("rate")
        traced = self._service.may("review")
        views = [TurnView.of(turn, ratable=ratable, own=own, traced=traced) for turn in detail.messages]
        turns = [{"turn": view.id, "html": str(view.html()), "sources": str(view.sources_html())} for view in views]
        about = detail.model_dump(include={"id", "title", "collection", "model"})
        return {**about, "own": own, "turns": turns}

    async def rename_conversation(self, data: object) -> Answer:
        """`{id, title}` → `{title}`."""
        asked = _Rename.model_validate(data)
        return {"title": (await self._service.rename_conversation(asked.id, asked.title.strip())).title}

    async def choose_model(self, data: object) -> Answer:
        """`{id, model}` → `{model}`: who answers from now on."""
        asked = _Chosen.model_validate(data)
        return {"model": (await self._service.choose_model(asked.id, asked.model)).model}

    async def share(self, data: object) -> Answer:
        """`{id}` → `{share, path, days}`: a link by which anybody may read the conversation."""
        made = await self._service.share_conversation(_Named.model_validate(data).id)
        return {"share": made.id, "path": made.path, "days": round((made.expires - made.created) / 86_400)}

    async def unshare(self, data: object) -> Answer:
        """`{id, turn}` → `{}`: take a link back; `turn` is the link's id."""
        asked = _Versioned.model_validate(data)
        await self._service.take_back_share(asked.id, asked.turn)
        return {}

    async def delete_conversation(self, data: object) -> Answer:
        """`{id}` → `{}`; one that is gone already is no error."""
        with suppress(NotFound):
            await self._service.delete_conversation(_Named.model_validate(data).id)
        return {}

    async def list_collections(self, data: object) -> Answer:
        """→ `{collections: [{name, documents, problem}], chosen, person, adding, workbench, models, sharing}`.

        `person` is who can sign out, or empty; `adding` and `workbench` are what the role allows; `models` are those a
        conversation may be answered by, beside the usual one.
        """
        found = await self._service.collections()
        names = [{"name": one.name, "documents": one.documents, "problem": _problem(one)} for one in found]
        default = self._service.settings.collection
        known, models = [one.name for one in found], list(self._service.settings.llm.choices)
        adding, who = self._service.may("documents"), self._service.principal
        chosen = default if default in known or (adding and not known) else next(iter(known), "")
        person = who.name if who.id.startswith(_BY_SESSION) else ""
        more = {"person": person, "adding": adding, "workbench": self._service.may("review"), "models": models}
        more["sharing"] = bool(self._service.settings.server.share_days)
        return {"collections": names, "chosen": chosen, **more}

    async def welcome(self, data: object) -> Answer:
        """`{id: collection}` → `{html}` of an empty conversation."""
        name = _Named.model_validate(data).id
        found = next((one for one in await self._service.collections() if one.name == name), None)
        documents = found.documents if found else 0
        asked = await self._service.examples(name) if documents else []
        return {
            "html": str(
                render(
                    "welcome.html",
                    collection=name if found or self._service.may("documents") else "",
                    documents=documents,
                    examples=asked,
                    adding=self._service.may("documents"),
                )
            )
        }

    async def follow_ups(self, data: object) -> Answer:
        """`{id: turn}` → `{html}` of questions to go on with; empty where none is known to be answered."""
        found = await self._service.follow_ups(_Named.model_validate(data).id)
        return {"html": str(render("followups.html", questions=[one.question for one in found]))}

    async def read_document(self, data: object) -> Answer:
        """`{collection, document, start, end, part}` → `{html}`."""
        place = _Place.model_validate(data)
        return {"html": str(await read(self._service, *place.model_dump().values()))}

    async def why_linked(self, data: object) -> Answer:
        """`{collection, document, text, at}` → `{html}` of what a document says of the sentence that links to it."""
        asked = _Following.model_validate(data)
        found = await self._service.why_linked(asked.collection, asked.document, asked.text, asked.at)
        return {"html": str(why_html(found))}

    async def make_readable(self, data: object) -> Answer:
        """`{collection, document, start, end}` → `{html}` of the quote made readable away from its page."""
        place = _Place.model_validate(data)
        made = await self._service.standalone(place.collection, place.document, place.start, place.end)
        return {"html": str(readable_html(made))}

    async def why_source(self, data: object) -> Answer:
        """`{turn, n, at, form}` → `{html}` of what source `n` is cited for, and what to ask `again` where a model can
        put it in words."""
        asked = _Why.model_validate(data)
        found = await self._service.why_of_turn(asked.turn, asked.n, asked.at, asked.form)
        more = asked.form == "quoted" and found.bears and found.model.casefold() != "none"
        again = asked.model_copy(update={"form": "written"}).model_dump() if more else None
        return {"html": str(why_html(found)), "again": again}

    async def rate(self, data: object) -> Answer:
        """`{turn, rating, reason, comment}` → `{}`; without a rating the old one is taken back."""
        asked = _Rate.model_validate(data)
        if asked.rating is None:
            await self._service.retract_feedback(asked.turn)
        else:
            await self._service.feedback(asked.turn, asked.rating, asked.reason, asked.comment)
        return {}

    async def watch_jobs(self, data: object) -> Answer:
        """`{jobs: {id: name}}` → `{html, running}`."""
        asked = _Jobs.model_validate(data).jobs
        found = [(await self._service.job(job), name) for job, name in asked.items()]
        return {"html": str(jobs_html(found)), "running": any(not job.finished for job, _ in found)}


def _problem(collection: CollectionSummary) -> str:
    """One line for whoever asks; which file it is, and where, is the operator's to see."""
    if not collection.problem:
        return ""
    if collection.answers:
        return gettext("Files of this collection are damaged: an older version answers until it is indexed again.")
    return gettext("Files of this collection are damaged: nothing can be asked until it is indexed again.")


def guarded(call: Call) -> Call:
    """`call` with its refusals as answers, so that the page can show them."""

    async def answer(data: object) -> Answer:
        try:
            return await call(data)
        except ValidationError:
            return {"error": gettext("The page sent something this server does not understand; reload the page.")}
        except ChatError as error:
            return {"error": error.message}

    answer.__name__ = getattr(call, "__name__", "call")
    return answer
