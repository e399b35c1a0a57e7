"""Calls from the page to the server besides answers: conversations, documents, ratings, uploads.

Each call takes one JSON object, whose members are the parameters of its method, and gives one back; a refused one gives
`{"error": ...}` with the remedy in words. Inputs are checked here, the work is the service's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from inspect import signature
from pkgutil import resolve_name
from typing import Annotated, Any, TypeAlias

from markupsafe import Markup
from pydantic import ConfigDict, Field, ValidationError, validate_call

from server.chat import (
    ChatError,
    ChatService,
    CollectionSummary,
    ConversationDetail,
    ConversationSummary,
    Job,
    NotFound,
    Rating,
    Where,
)
from server.plugins import page_calls, resolve, switched_on
from text.languages import gettext, message, ngettext
from ui.source_panel import read
from ui.templates import render
from ui.turns import TurnView

Answer: TypeAlias = dict[str, Any]

_NAMES = {"version": message("Version"), "product": message("Product"), "language": message("Language")}
_BY_SESSION = ("key:", "oidc:")
"""How ids of principals begin whom a session let in, which they can end: no proxy did, and this machine is not one."""


class Calls:
    """The calls of one mounted page. Each method's name is its name in the page's scripts."""

    def __init__(self, service: ChatService) -> None:
        self._service = service

    async def list_conversations(self, query: str = "") -> Answer:
        """→ `{html}`."""
        query = query.strip()
        summaries = await self._service.conversations.listing(query or None, limit=200)
        # One that was begun and asked nothing is not worth a row.
        summaries = [summary for summary in summaries if summary.turns]
        return {"html": str(conversations_html(summaries, query, all_changed=self._service.admin.may("change_any")))}

    async def open_conversation(self, id: str) -> Answer:
        """→ `{id, title, collection, model, own, turns: [{turn, html, sources}]}`; `own`: it may be gone on with."""
        return self._opened(await self._service.conversations.get(id))

    async def show_version(self, id: str, turn: str) -> Answer:
        """→ as `open_conversation`, with that version of the turn and what followed it."""
        return self._opened(await self._service.conversations.show_version(id, turn))

    def _opened(self, detail: ConversationDetail) -> Answer:
        own, ratable = detail.own or self._service.admin.may("change_any"), self._service.admin.may("rate")
        traced = self._service.admin.may("review")
        views = [TurnView.of(turn, ratable=ratable, own=own, traced=traced) for turn in detail.messages]
        turns = [{"turn": view.id, "html": str(view.html()), "sources": str(view.sources_html())} for view in views]
        about = detail.model_dump(include={"id", "title", "collection", "model"})
        return {**about, "own": own, "turns": turns}

    async def rename_conversation(self, id: str, title: Annotated[str, Field(min_length=1, max_length=200)]) -> Answer:
        """→ `{title}`."""
        return {"title": (await self._service.conversations.rename(id, title.strip())).title}

    async def choose_model(self, id: str, model: str) -> Answer:
        """→ `{model}`: who answers from now on."""
        return {"model": (await self._service.conversations.choose_model(id, model)).model}

    async def share(self, id: str) -> Answer:
        """→ `{share, path, days}`: a link by which anybody may read the conversation."""
        share = await self._service.conversations.share(id)
        return {"share": share.id, "path": share.path, "days": round((share.expires - share.created) / 86_400)}

    async def unshare(self, id: str, turn: str) -> Answer:
        """→ `{}`: take a link back; `turn` is the link's id."""
        await self._service.conversations.revoke_share(id, turn)
        return {}

    async def delete_conversation(self, id: str) -> Answer:
        """→ `{}`; one that is gone already is no error."""
        with suppress(NotFound):
            await self._service.conversations.delete(id)
        return {}

    async def list_collections(self) -> Answer:
        """→ `{collections: [{name, documents, problem}], chosen, person, adding, workbench, models, sharing}`.

        `person` is who can sign out, or empty; `adding` and `workbench` are what the role allows; `models` are those a
        conversation may be answered by, beside the usual one.
        """
        collections = await self._service.collections.listing()
        names = [
            {"name": collection.name, "documents": collection.documents, "problem": _problem(collection)}
            for collection in collections
        ]
        default = self._service.settings.collection
        listed, models = [collection.name for collection in collections], list(self._service.settings.llm.choices)
        adding, who = self._service.admin.may("documents"), self._service.principal
        chosen = default if default in listed or (adding and not listed) else next(iter(listed), "")
        person = who.name if who.id.startswith(_BY_SESSION) else ""
        more = {"person": person, "adding": adding, "workbench": self._service.admin.may("review"), "models": models}
        more["sharing"] = bool(self._service.settings.server.share_days)
        return {"collections": names, "chosen": chosen, **more}

    async def welcome(self, id: str, where: Where | None = None) -> Answer:
        """→ `{html}` of an empty conversation about the collection `id`, within a filter."""
        collection = next(
            (collection for collection in await self._service.collections.listing() if collection.name == id), None
        )
        documents = collection.documents if collection else 0
        adding = self._service.admin.may("documents")
        html = render(
            "welcome.html",
            collection=id if collection or adding else "",
            documents=documents,
            examples=await self._service.suggestions.examples(id, where) if documents else [],
            adding=adding,
            embedded=1 - collection.without_vector / collection.passages if collection and collection.passages else 1,
        )
        return {"html": str(html)}

    async def filters(self, id: str) -> Answer:
        """→ `{html}` of what a search of the collection `id` can be narrowed by; empty where there is no choice."""
        fields = await self._service.suggestions.filters(id) if id else {}
        open_to_choice = {field: values for field, values in fields.items() if len(values) > 1}
        return {"html": str(render("filters.html", fields=open_to_choice, names=_NAMES))}

    async def below_turn(self, id: str) -> Answer:
        """→ `{html}` of what plugins show below the turn `id`."""
        plugins = switched_on(self._service.settings.plugins)
        places = [(plugin, place) for plugin in plugins for place in plugin.turn_parts]
        return {"html": "".join([str(await resolve(*place)(self._service, id)) for place in places])}

    async def read_document(
        self, collection: str, document: str, start: int = 0, end: int = 0, part: str = ""
    ) -> Answer:
        """→ `{html}`."""
        return {"html": str(await read(self._service, collection, document, start, end, part))}

    async def rate(self, turn: str, rating: Rating | None, reason: str = "", comment: str = "") -> Answer:
        """→ `{}`; without a rating the old one is taken back."""
        if rating is None:
            await self._service.turns.retract_feedback(turn)
        else:
            await self._service.turns.give_feedback(turn, rating, reason, comment)
        return {}

    async def note_opened(self, turn: str, source: int) -> Answer:
        """→ `{}`: whoever asked looks at the source of this number."""
        await self._service.turns.note_opened(turn, source)
        return {}

    async def watch_jobs(self, jobs: Annotated[dict[str, str], Field(max_length=50)]) -> Answer:
        """`{jobs: {id: name}}` → `{html, running, done}`; `done`: the ids of those that went well."""
        finished = [(await self._service.admin.job(job), name) for job, name in jobs.items()]
        done = [job.id for job, _ in finished if job.state == "done"]
        return {"html": str(jobs_html(finished)), "running": any(not job.finished for job, _ in finished), "done": done}


def _problem(collection: CollectionSummary) -> str:
    """One line for whoever asks; which file it is, and where, is the operator's to see."""
    if not collection.problem:
        return ""
    if collection.answers:
        return gettext("Files of this collection are damaged: an older version answers until it is indexed again.")
    return gettext("Files of this collection are damaged: nothing can be asked until it is indexed again.")


@cache
def _checked(name: str) -> tuple[Callable[..., Awaitable[Answer]], frozenset[str]]:
    """The method of that name, which refuses what its parameters do not take, and their names."""
    method = getattr(Calls, name, None) or resolve_name(page_calls()[name])
    checked = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(method)
    return checked, frozenset(signature(method).parameters)


async def answered(service: ChatService, name: str, data: object, *, admit: bool = False) -> Answer:
    """Return the result of the named call; refusals become answers that the page can show."""
    try:
        if admit:
            await service.admin.admit()
        method, names = _checked(name)
        items = data.items() if isinstance(data, dict) else ()
        target = Calls(service) if hasattr(Calls, name) else service
        return await method(target, **{key: value for key, value in items if key in names - {"self", "service"}})
    except ValidationError:
        return {"error": gettext("The page sent something this server does not understand; reload the page.")}
    except ChatError as error:
        return {"error": error.message}


def _age(updated: float, now: datetime) -> str:
    day, today = datetime.fromtimestamp(updated).date(), now.date()
    if day >= today:
        return gettext("Today")
    if day == today - timedelta(days=1):
        return gettext("Yesterday")
    return gettext("Last seven days") if day > today - timedelta(days=7) else gettext("Earlier")


def grouped(conversations: Sequence[ConversationSummary], now: datetime) -> dict[str, list[ConversationSummary]]:
    """Newest first, under the names of their age in days (of this machine's clock)."""
    groups: dict[str, list[ConversationSummary]] = {}
    for conversation in sorted(conversations, key=lambda summary: summary.updated, reverse=True):
        groups.setdefault(_age(conversation.updated, now), []).append(conversation)
    return groups


def conversations_html(
    conversations: Sequence[ConversationSummary], query: str = "", *, all_changed: bool = True
) -> Markup:
    """The list; with `query`, what a search for it found, as one group. `all_changed`: also those of others may be
    renamed and deleted. Of those with one title each has its time."""
    if query:
        groups = {gettext("Found"): list(conversations)} if conversations else {}
    else:
        groups = grouped(conversations, datetime.now())
    alike = Counter(conversation.title for conversation in conversations)
    return render("conversations.html", groups=groups, query=query, all_changed=all_changed, alike=alike)


_STATES = {
    "queued": message("waiting"),
    "failed": message("failed"),
    "cancelled": message("cancelled"),
    "interrupted": message("interrupted"),
}
_STAGES = (message("reading"), message("embedding"), message("saving"), message("indexing"))


def job_words(job: Job) -> str:
    """The state of a job in words."""
    if job.finished:
        return gettext(_STATES[job.state]) if job.state in _STATES else _outcome(job)
    if job.total:
        stage = gettext(job.stage or "indexing")
        return gettext("%(stage)s, %(done)s of %(total)s", stage=stage, done=f"{job.done:,}", total=f"{job.total:,}")
    return gettext(job.stage or _STATES.get(job.state, "indexing"))


def job_problems(job: Job) -> list[str]:
    """Return the reason why a job failed, and its first files that failed or of which something was left out."""
    troubled = [file for file in job.files if file.message and file.status != "unchanged"]
    problems = [f"{file.document_id}: {file.message}" for file in troubled]
    if job.message and job.state in ("failed", "interrupted"):
        problems.insert(0, job.message)
    return problems[:5]


def _outcome(job: Job) -> str:
    passages = sum(file.passages for file in job.files)
    if not passages and any(file.status == "failed" for file in job.files):
        return gettext("not indexed")
    if job.files and all(file.status == "unchanged" for file in job.files):
        return gettext("already there")
    if not passages:
        return gettext("done")
    return ngettext("ready, %(count)s passage", "ready, %(count)s passages", passages, count=f"{passages:,}")


def jobs_html(jobs: Sequence[tuple[Job, str]]) -> Markup:
    """The state of uploads, each with the name of its file."""
    return render("jobs.html", jobs=[(job, name, job_words(job), job_problems(job)) for job, name in jobs])
