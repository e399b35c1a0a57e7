"""Inputs and outputs of the chat service, besides the events of a turn and stored records.

Texts come from people, documents and models alike and are never trusted: a reader escapes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from pydantic import Field

from index.query import Where
from rewriter.protocol import Message
from server.access import Role
from server.store.keys import ApiKey
from server.store.records import DayCounts, Share, View
from server.turn.events import Evidence, RewriteEvent


class TurnRequest(View):
    """A question to be answered.

    Either `conversation_id` (the stored turns are the history and this turn is added to them), or
    `history` (nothing is remembered of it but the trace), or neither.

    `regenerate_of` names a stored turn of the conversation of which this is a new version (retry, or an
    edited question): that turn is set aside with those after it, and can be shown again.
    `search_for` replaces what the rewriter would make of the question. `where` filters on passage
    metadata. `answer_tokens` may only lower the limit of the settings. `model` is one of `llm.choices`; empty: the
    conversation's. `split_questions` overrides the setting.
    """

    question: str
    collection: str = Field(default="", description="Empty: the conversation's, else the default collection.")
    conversation_id: str | None = None
    history: tuple[Message, ...] | None = None
    search_for: str | None = None
    where: Where | None = None
    regenerate_of: str | None = None
    answer_tokens: int | None = None
    model: str = ""
    split_questions: bool | None = None


class CollectionSummary(View):
    """A collection. `busy` is the id of the job that is changing it, if any.

    `problem` says what is damaged, as far as is known; `answers` is false where no version of it can be read.
    """

    name: str
    documents: int
    passages: int
    version: str
    updated: float
    busy: str | None = None
    problem: str = ""
    answers: bool = True


class DocumentSummary(View):
    """A document of a collection. `removable` is true for uploads, which this server may delete."""

    id: str
    title: str
    source: str
    format: str
    passages: int
    removable: bool
    warning: str = Field(default="", description="What of its file was left out, and why.")


class SectionView(View):
    """One section's place in a document's text."""

    heading: tuple[str, ...]
    start: int
    end: int
    page: int | None


class ReferenceView(View):
    """An entry of a document's list of references, and the document of the collection that it names, or empty."""

    text: str
    document_id: str


class MarkerView(View):
    """A place in a document's text that names the entry `reference` (from 0) of its list of references."""

    start: int
    end: int
    reference: int


class LinkView(View):
    """A stretch of a document's text that leads to another document, at the heading of that anchor if it has one."""

    start: int
    end: int
    document_id: str
    anchor: str = ""


class DocumentText(View):
    """A document's text as it was indexed; citations' `start` and `end` count its characters.

    `links` are the addresses of links in it that lead to documents of the collection; `linked` are the words that did
    in a file whose text here shows words alone. The list of references is no part of the text.
    """

    id: str
    title: str
    source: str
    text: str
    sections: tuple[SectionView, ...]
    references: tuple[ReferenceView, ...] = ()
    markers: tuple[MarkerView, ...] = ()
    links: Mapping[str, str] = {}
    linked: tuple[LinkView, ...] = ()


class Suggestion(View):
    """A question that the section of this document should answer."""

    question: str
    document_id: str
    title: str
    heading: tuple[str, ...]


class SearchResult(View):
    """Evidence that a turn would receive, and more of it."""

    rewrite: RewriteEvent
    passages: list[Evidence]
    reranked: bool
    seconds: float


class StageTimes(View):
    """Seconds that a stage took, median and 95th percentile, over so many turns."""

    stage: str
    p50: float
    p95: float
    turns: int


class UnansweredQuestions(View):
    """Questions that ask for the same and found nothing: some of their wordings, and the newest turn's id."""

    questions: tuple[str, ...]
    turns: int
    newest: str


class Statistics(View):
    """How the server fares. Days without turns are left out; `unanswered` is empty where texts are not recorded."""

    since: float
    days: list[DayCounts]
    stages: list[StageTimes] = Field(description="Over the newest traced turns; `turn` is a whole one.")
    unanswered: list[UnansweredQuestions]
    content: bool = Field(description="Whether texts are recorded (`trace.content`).")


class PassageView(View):
    """A passage of a document as it is searched, with its place in the document's text."""

    id: str
    text: str
    kind: str
    heading: tuple[str, ...]
    page: int | None
    start: int
    end: int


class PassagePage(View):
    """Some of a document's passages, from number `offset` on, and how many there are."""

    data: list[PassageView]
    offset: int
    total: int


class NewShare(Share):
    """A link that was made just now: `path` on this server is the link itself, which cannot be had again."""

    path: str


class Readiness(View):
    """Whether a turn would be answered without waiting; `waiting_for` says in words for what.

    `problems` keep turns from being answered well, `warnings` do not.
    """

    ready: bool
    engine: str
    collection: str
    waiting_for: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class KeySummary(View):
    """An API key as it can be shown. `groups` may be `*`: every group."""

    id: str
    name: str
    role: Role
    groups: tuple[str, ...]
    created: float
    used: float | None
    expires: float | None
    revoked: float | None

    @classmethod
    def of(cls, key: ApiKey) -> KeySummary:
        """Return the fields of a key that may be shown."""
        return cls.model_validate({**asdict(key), "groups": sorted(key.groups)})


class NewKey(KeySummary):
    """A key that was made just now: `key` is the key itself, which cannot be had again."""

    key: str
