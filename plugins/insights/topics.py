"""Group the questions of a period by meaning, count their outcomes, and find what the documents lack.

A gap of the documents has the stub of a section to write. It is closed where its questions, asked again without a
model, get a sure answer from the documents as they are now, or the answer that a person wrote. Nothing of it is stored.
"""

from __future__ import annotations

import csv
import io
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import numpy as np
from fastapi import APIRouter, Query
from fastapi.responses import Response
from jinja2 import Environment
from pydantic import Field

from index.documents import MetadataValue, Where, in_scope
from index.encoders import Vectors
from plugins.insights import InsightsSettings
from plugins.insights.disagreements import Disagreement, disagreements
from server.api.dependencies import CollectionFilter, Narrowed, Service
from server.chat.base import Forbidden, ServiceBase, checked_name, requires, run_blocking, translated
from server.chat.reviews import DAY
from server.store.records import StoredTurn, View
from server.store.reviewed import counted
from server.store.turns import with_owners
from server.turn.events import DoneEvent
from server.turn.models import TurnModels
from server.turn.run import TurnEngine, TurnInput
from text.languages import ENGLISH, NAMES, language_of
from text.sanitize import sanitize_line
from text.words import tokenize

if TYPE_CHECKING:
    from server.chat.service import ServiceCore


AGAIN, WORDINGS = 20, 2
"""Gaps that are asked again, and questions of each; a question takes the time of a turn without its model."""

Closed: TypeAlias = Literal["", "curated", "documents"]


@dataclass(frozen=True, slots=True)
class _WithoutModel:
    """The models of a search, for turns that quote."""

    core: ServiceCore

    async def of_turn(self, answer_tokens: int | None = None, group: str = "") -> TurnModels:
        return await self.of_search(group)

    async def of_search(self, group: str = "") -> TurnModels:
        return await self.core.models.of_search(group)


async def closed_by(core: ServiceCore, collection: str, group: str, questions: Sequence[str]) -> Closed:
    """Return who closed a gap of these questions, each understood alone; empty while one is open."""
    engine = TurnEngine(
        collection=core.opened.get, models=_WithoutModel(core), settings=core.settings, answerers=core.answerers
    )
    closed: Closed = ""
    for question in questions[:WORDINGS]:
        place = core.admission.enter()
        try:
            await place.wait()
            request = TurnInput(question=question, collection=collection, group=group, split_questions=False)
            async with aclosing(engine.run(request)) as events:
                done = [event async for event in events if isinstance(event, DoneEvent)]
        finally:
            place.release()
        if not done or not (done[0].written or (done[0].status == "quoted" and not done[0].doubted)):
            return ""
        closed = "curated" if done[0].written else "documents"
    return closed


def draft(questions: Sequence[str]) -> str:
    """Return the stub of a section that answers these questions, in Markdown."""
    lines = [escaped(question) for question in questions]
    return "\n".join((f"## {lines[0]}", "", "…", "", "<!-- People asked:", *(f"- {line}" for line in lines), "-->"))


def escaped(text: str) -> str:
    """Return a text without what Markdown or HTML would read as its own."""
    line = "".join(f"\\{char}" if char in "\\`*_[]<>|#~&" else char for char in sanitize_line(text))
    return re.sub(r"^(\d*)([-+=.):])", r"\1\\\2", line)  # no list, rule or underline


READ = 3000
"""Turns of a period that are grouped, the newest."""
SHOWN, EXAMPLES, NAMED, LISTED = 50, 5, 3, 20
ALIKE = 0.6
"""Cosine from which on two questions ask for the same."""
_FORMULA = re.compile(r"(^|[;\t])(?=\s*[=+@\-＝＋－＠])")
"""Where a spreadsheet that parts cells at this sign, or at another one, reads a formula."""

router = APIRouter(tags=["Insights"])


class Place(View):
    """A section of a document, and in how many turns it was cited or came nearest."""

    document_id: str
    title: str
    heading: str
    turns: int


class Topic(View):
    """Questions that ask for the same, most frequent first. `name` holds the words that set them apart.

    `earlier` counts those in the period of the same length before. The other counts are turns; `unanswered` ones were
    refused or asked back, or their answer was doubted, contradicted or rated as bad.
    """

    name: str
    questions: tuple[str, ...]
    turns: int
    earlier: int
    refused: int
    asked: int
    doubted: int
    rated_up: int
    rated_down: int
    unanswered: int
    newest: str = Field(description="The id of the newest turn.")
    sections: tuple[Place, ...]
    draft: str = Field("", description="Of a gap, the stub of the section to write, in Markdown.")
    closed: Closed = Field(
        "", description="Of a gap that was asked again: whether a person's answer or the documents answer it by now."
    )


class Outcomes(View):
    """Turns by their outcome, and ratings. `failed` ones ended early, or were stopped."""

    answered: int
    doubted: int
    refused: int
    asked: int
    failed: int
    rated_up: int
    rated_down: int


class Page(View):
    """A page of a site from which people asked, by its address."""

    page: str
    turns: int
    unanswered: int


class Insights(View):
    """Return questions since a time (seconds since the epoch), and their outcomes.

    `gaps` are topics of turns without a sure answer; their `sections` came nearest, and lack something. Without
    recorded texts (`trace.content`) both are empty.
    """

    since: float
    turns: int = Field(description="Of the newest 3,000 of the period and the one before.")
    people: int = Field(description="How many asked; visitors of a web site count as far as their browsers tell.")
    outcomes: Outcomes
    languages: dict[str, int] = Field(description="Turns by the language of the question; empty: too short to tell.")
    pages: list[Page] = Field(description="Pages that were read while asking, most frequent first.")
    cited: list[Place] = Field(description="Documents cited most, without headings.")
    filters: dict[str, list[MetadataValue]] = Field(description="By which people narrowed their searches.")
    topics: list[Topic]
    gaps: list[Topic]
    disagreements: list[Disagreement] = Field(
        description="Sentences of different sections that one answer cited and that say different things."
    )
    never_cited: list[str] = Field(description="Documents of the collection that no answer cited, by id.")


class InsightsService(ServiceBase):
    """Insights into the turns that `principal` may review."""

    @requires("review")
    async def report(
        self, *, days: int = 7, collection: str = "", where: Where | None = None, again: bool = False
    ) -> Insights:
        """Group the newest turns of the last `days` (UTC, with today) by meaning; `again` asks the gaps once more.

        With `where` only turns count that searched with this filter or a narrower one. Raises NotFound, and Forbidden
        while insights are off.
        """
        if not self.core.settings.of(InsightsSettings).enabled:
            raise Forbidden("Insights are off; an operator sets plugins.insights.enabled.")
        name = checked_name(collection) if collection else ""
        if name:
            await self.existing(name)
        since = (time.time() // DAY - (days - 1)) * DAY

        self.note("insights.read", collection=name)
        wanted = counted(self.principal, name, since - days * DAY)
        found_rows = await self._read(with_owners, self.principal, wanted, READ)
        rows = [row for row in found_rows if in_scope(where or {}, row[0].where)]

        def group() -> Insights:
            texts = [_alone(turn) for turn, _ in rows]
            places = [at for at, text in enumerate(texts) if text.strip()]
            vectors = self.core.models.encoder().encode([texts[at] for at in places])
            turns = [rows[at][0] for at in places]
            recent = [turn for turn, _ in rows if turn.created >= since]
            cited = {place.document_id for turn in recent if turn.done for place in turn.done.citations}
            documents = self._documents(name, where or {}) if name else set()
            fields, pairs = self.core.settings.server.filters.get(name, ()), self.core.models.pairs()
            apart = {
                key: {field: self.core.opened.get(name).document(key).metadata.get(field, "") for field in fields}
                for key in (cited & documents if fields else ())
            }
            lost = [at for at, turn in enumerate(turns) if _unanswered(turn)]
            return Insights(
                since=since,
                turns=len(recent),
                people=len({owner for turn, owner in rows if turn.created >= since}),
                outcomes=_outcomes(recent),
                languages=dict(Counter(language_of(turn.question) for turn in recent if turn.question).most_common()),
                pages=_pages(recent),
                cited=_cited(recent),
                filters=_filters(turn for turn, _ in found_rows if turn.created >= since),
                topics=_topics(turns, vectors, since),
                gaps=[
                    gap.model_copy(update={"draft": draft(gap.questions)})
                    for gap in _topics([turns[at] for at in lost], vectors[lost], since)
                ],
                disagreements=disagreements(recent, pairs, apart) if pairs else [],
                never_cited=sorted(documents - cited),
            )

        with translated():
            report = await run_blocking(group)
            if not again:
                return report
            alone = {turn.id: turn for turn, _ in rows}
            gaps = [await self._asked_again(gap, alone) for gap in report.gaps[:AGAIN]]
        return report.model_copy(update={"gaps": [*gaps, *report.gaps[AGAIN:]]})

    def _documents(self, name: str, where: Where) -> set[str]:
        """Return the documents of a collection within a filter. Blocks."""
        opened = self.core.opened.get(name)
        ids = {info.id for info in opened.documents()}
        return {name for name in ids if in_scope(where, opened.document(name).metadata)} if where else ids

    async def _asked_again(self, gap: Topic, turns: Mapping[str, StoredTurn]) -> Topic:
        newest = turns[gap.newest]
        group = (await self.reached(newest.collection)).group
        wordings = dict.fromkeys(_alone(turn) for turn in turns.values() if turn.question in gap.questions)
        questions = list(dict.fromkeys((_alone(newest), *wordings)))
        return gap.model_copy(update={"closed": await closed_by(self.core, newest.collection, group, questions)})


def _alone(turn: StoredTurn) -> str:
    """Return the question of a turn as it is understood alone."""
    return turn.rewrite.text if turn.rewrite and turn.rewrite.text else turn.question


def _unanswered(turn: StoredTurn) -> bool:
    done = turn.done
    if turn.feedback is not None and turn.feedback.rating == "down":
        return True
    if done is None or done.written:
        return False
    contradicted = any(sentence.contradicted for sentence in done.support)
    return done.status in ("refused", "asked") or done.doubted or contradicted


def _outcomes(turns: Sequence[StoredTurn]) -> Outcomes:
    statuses, ratings = Counter(turn.status for turn in turns), Counter(_rating(turn) for turn in turns)
    sure = [turn for turn in turns if turn.status in ("answered", "quoted")]
    doubted = sum(turn.done is not None and turn.done.doubted for turn in sure)
    return Outcomes(
        answered=len(sure) - doubted,
        doubted=doubted,
        refused=statuses["refused"],
        asked=statuses["asked"],
        failed=statuses["failed"] + statuses["interrupted"],
        rated_up=ratings["up"],
        rated_down=ratings["down"],
    )


def _rating(turn: StoredTurn) -> str:
    return turn.feedback.rating if turn.feedback else ""


def _pages(turns: Sequence[StoredTurn]) -> list[Page]:
    counts = Counter(turn.page for turn in turns if turn.page)
    lost = Counter(turn.page for turn in turns if turn.page and _unanswered(turn))
    return [Page(page=page, turns=count, unanswered=lost[page]) for page, count in counts.most_common(LISTED)]


def _cited(turns: Sequence[StoredTurn]) -> list[Place]:
    counts: Counter[tuple[str, str, str]] = Counter()
    for turn in turns:
        counts.update({(place.document_id, place.title, "") for place in (turn.done.citations if turn.done else ())})
    return _places(counts, LISTED)


def _places(counts: Counter[tuple[str, str, str]], most: int) -> list[Place]:
    """Return those places (document, title, heading) that are counted most."""
    return [Place(document_id=d, title=t, heading=h, turns=count) for (d, t, h), count in counts.most_common(most)]


def _filters(turns: Iterable[StoredTurn]) -> dict[str, list[MetadataValue]]:
    values: dict[str, Counter[MetadataValue]] = {}
    for turn in turns:
        for field, value in turn.where.items():
            values.setdefault(field, Counter()).update(value if isinstance(value, list) else [value])
    return {field: [value for value, _ in counts.most_common(LISTED)] for field, counts in sorted(values.items())}


def _topics(turns: Sequence[StoredTurn], vectors: Vectors, since: float) -> list[Topic]:
    overall = Counter(word for turn in turns for word in _words(turn.question))
    topics = []
    for places in groups_alike(vectors, ALIKE):
        members = [turns[at] for at in places]
        recent = [turn for turn in members if turn.created >= since]
        if recent:
            topics.append(_topic(recent, len(members) - len(recent), overall, len(turns)))
    return sorted(topics, key=lambda topic: -topic.turns)[:SHOWN]


def groups_alike(vectors: Vectors, threshold: float) -> list[list[int]]:
    """Return the places of vectors, `(n, dimension)` and normalised, in groups.

    Each joins the first whose cosine to it reaches the threshold, in the order given: equal input gives equal groups.
    """
    free = np.ones(len(vectors), dtype=bool)
    groups = list[list[int]]()
    for first in range(len(vectors)):
        if free[first]:
            here = free & (vectors @ vectors[first] >= threshold)
            here[first] = True
            free &= ~here
            groups.append(np.flatnonzero(here).tolist())
    return groups


def _topic(turns: Sequence[StoredTurn], earlier: int, overall: Counter[str], total: int) -> Topic:
    questions = Counter(sanitize_line(turn.question) for turn in turns)
    own = Counter(word for turn in turns for word in _words(turn.question))
    # Words of many of these questions and of few others (tf-idf over turns).
    telling = sorted(own, key=lambda word: (-own[word] * np.log(1 + total / overall[word]), word))
    return Topic(
        **_outcomes(turns).model_dump(exclude={"answered", "failed"}),
        name=", ".join(telling[:NAMED]),
        questions=tuple(question for question, _ in questions.most_common(EXAMPLES)),
        turns=len(turns),
        earlier=earlier,
        unanswered=sum(map(_unanswered, turns)),
        newest=turns[0].id,
        sections=_sections(turns),
    )


def _sections(turns: Sequence[StoredTurn]) -> tuple[Place, ...]:
    """Return the sections cited most in these turns; of a turn that cites nothing, the one that came nearest."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for turn in turns:
        nearest = turn.evidence.passages[:1] if turn.evidence else ()
        places: Iterable[Any] = (turn.done.citations if turn.done else ()) or nearest
        counts.update({(place.document_id, place.title, " › ".join(place.heading)) for place in places})
    return tuple(_places(counts, NAMED))


def _words(question: str) -> set[str]:
    """Return the words of a question that carry meaning, as they are written."""
    bare = (text.strip(".,;:!?()\"'`") for text in question.casefold().split())
    return {word for word in bare if len(word) > 2 and tokenize(word, (ENGLISH,))}


_CLOSED = {"": "", "curated": ", closed by a person's answer", "documents": ", closed by the documents"}


def markdown_report(insights: Insights, days: int) -> str:
    """Return a report for people: outcomes, topics, gaps with a stub of the section to write, and what was cited."""
    outcomes = [f"{name.replace('_', ' ')} {count}" for name, count in insights.outcomes]
    spoken = [f"{NAMES.get(code, 'too short to tell')} {count}" for code, count in insights.languages.items()]
    lists = {
        "Asked from": [f"{escaped(page.page)}: {page.turns}" for page in insights.pages],
        "Cited": [f"{escaped(place.document_id)}: {place.turns}" for place in insights.cited],
        "Never cited": [escaped(name) for name in insights.never_cited],
    }
    environment = Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["md"] = escaped
    template = environment.from_string(files(__package__).joinpath("report.md.jinja").read_text("utf-8"))
    more = {"outcomes": (outcomes, spoken), "closed": _CLOSED, "lists": list(lists.items())}
    return template.render(insights=insights, days=days, **more).rstrip() + "\n"


def csv_table(insights: Insights) -> str:
    """Return topics, gaps, pages and cited documents as CSV.

    A cell that a spreadsheet would take for a formula begins with an apostrophe.
    """
    out = io.StringIO()
    table = csv.writer(out)
    counts = "turns", "earlier", "refused", "asked", "doubted", "rated_up", "rated_down", "unanswered"
    table.writerow(("kind", "name", *counts, "question", "nearest"))
    for kind, topics in (("topic", insights.topics), ("gap", insights.gaps)):
        for topic in topics:
            nearest = topic.sections[0].document_id if topic.sections else ""
            cells = (kind, topic.name, *(getattr(topic, count) for count in counts), topic.questions[0], nearest)
            table.writerow(_FORMULA.sub(r"\1'", str(cell)) for cell in cells)
    blank = [""] * (len(counts) - 1)
    rows = [("page", page.page, page.turns, *blank[:-1], page.unanswered) for page in insights.pages]
    rows += [("cited", place.document_id, place.turns, *blank) for place in insights.cited]
    for cells in rows:
        table.writerow(_FORMULA.sub(r"\1'", str(cell)) for cell in (*cells, "", ""))
    return out.getvalue()


MAX_DAYS = 365
Days = Annotated[int, Query(ge=1, le=MAX_DAYS, description="How many days back.")]
Again = Annotated[
    bool, Query(description="Ask the first 20 gaps again, without a model, and tell which are closed by now.")
]


_FILES = {"markdown": ("text/markdown", "md"), "csv": ("text/csv", "csv")}


@router.get(
    "/v1/insights",
    summary="Report what people ask and what the documents lack",
    response_model=Insights,
    responses={200: {"description": "The report.", "content": {"text/markdown": {}, "text/csv": {}}}},
)
async def insights(
    service: Service,
    where: Narrowed,
    days: Days = 7,
    collection: CollectionFilter = "",
    again: Again = False,
    style: Annotated[
        Literal["json", "markdown", "csv"],
        Query(alias="format", description="For programs, for people, or for spreadsheets."),
    ] = "json",
) -> Insights | Response:
    """Group the questions of the last days by meaning, with counts of their outcomes and the gaps they show.

    The report for people has a stub of each section that is to be written.
    """
    reporting = InsightsService(service.core, service.principal)
    report = await reporting.report(days=days, collection=collection, where=where, again=again)
    if style == "json":
        return report
    text, (kind, suffix) = markdown_report(report, days) if style == "markdown" else csv_table(report), _FILES[style]
    headers = {"Content-Disposition": f'attachment; filename="insights.{suffix}"'}
    return Response(text, media_type=kind, headers=headers)
