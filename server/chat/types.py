"""What goes into the chat service and what comes out of it, beside the events of a turn.

Everything here is frozen and can be written as JSON. Times are seconds since the epoch, UTC. Texts
come from people, documents and models alike and are never trusted: a reader escapes them.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from index.query import Where
from rewriter.conversation import Turn
from server.turn.events import DoneEvent, ErrorEvent, Evidence, EvidenceEvent, RewriteEvent

TurnStatus: TypeAlias = Literal["pending", "answered", "quoted", "refused", "failed", "interrupted"]
"""pending: running now. failed: ended with an error event. interrupted: stopped by the reader, or the
server ended before the answer did; what had been shown until then stands in `answer`."""

JobState: TypeAlias = Literal["queued", "running", "done", "failed", "cancelled", "interrupted"]
JobKind: TypeAlias = Literal["upload", "index", "reindex", "delete"]
Rating: TypeAlias = Literal["up", "down"]


class _View(BaseModel):
    model_config = ConfigDict(frozen=True)


class TurnRequest(_View):
    """A question to be answered.

    Either `conversation_id` (the stored turns are the history and this turn is added to them), or
    `history` (nothing is remembered of it but the trace), or neither.

    `regenerate_of` names a stored turn of the conversation whose place the new one takes (retry, or
    an edited question): that turn and those after it are no longer part of the conversation.
    `search_for` replaces what the rewriter would make of the question. `where` filters on passage
    metadata. `answer_tokens` may only lower the limit of the settings.
    """

    question: str
    collection: str = Field(default="", description="Empty: the conversation's, else the default collection.")
    conversation_id: str | None = None
    history: tuple[Turn, ...] | None = None
    search_for: str | None = None
    where: Where | None = None
    regenerate_of: str | None = None
    answer_tokens: int | None = None


class Feedback(_View):
    """What a person thought of a turn; the newest word counts."""

    turn_id: str
    rating: Rating
    reason: str = ""
    comment: str = ""
    created: float


class FeedbackRecord(Feedback):
    """Feedback with what it is about, for the export."""

    conversation_id: str | None
    collection: str
    question: str
    answer: str
    status: TurnStatus


class StoredTurn(_View):
    """A turn as it is kept. `done` is there after a good end, `error` after a bad one."""

    id: str
    conversation_id: str | None
    collection: str
    question: str
    status: TurnStatus
    answer: str
    search_for: str | None
    created: float
    finished: float | None
    rewrite: RewriteEvent | None
    evidence: EvidenceEvent | None
    done: DoneEvent | None
    error: ErrorEvent | None
    feedback: Feedback | None


class ConversationSummary(_View):
    """A line in the list of conversations. `excerpt` shows where a search matched, else it is empty."""

    id: str
    title: str
    collection: str
    created: float
    updated: float
    turns: int
    excerpt: str = ""


class ConversationDetail(ConversationSummary):
    """A conversation with its turns, oldest first."""

    messages: tuple[StoredTurn, ...]


class CollectionSummary(_View):
    """A collection that can be asked. `busy` is the id of the job that is changing it, if any."""

    name: str
    documents: int
    passages: int
    version: str
    updated: float
    busy: str | None = None


class DocumentSummary(_View):
    """A document of a collection. `removable` is true for uploads, which this server may delete."""

    id: str
    title: str
    source: str
    format: str
    passages: int
    removable: bool


class FileResult(_View):
    """What became of one file in a job."""

    document_id: str
    status: Literal["indexed", "unchanged", "failed", "skipped", "deleted"]
    message: str = ""
    passages: int = 0


class SectionView(_View):
    """One section's place in a document's text."""

    heading: tuple[str, ...]
    start: int
    end: int
    page: int | None


class DocumentText(_View):
    """A document's text as it was indexed; citations' `start` and `end` count its characters."""

    id: str
    title: str
    source: str
    text: str
    sections: tuple[SectionView, ...]


class Job(_View):
    """Work on a collection. `done` of `total` files; `files` is complete when the state is final."""

    id: str
    kind: JobKind
    collection: str
    state: JobState
    stage: str = ""
    done: int = 0
    total: int = 0
    message: str = ""
    files: tuple[FileResult, ...] = ()
    created: float
    updated: float

    @property
    def finished(self) -> bool:
        return self.state not in ("queued", "running")


class TraceStep(_View):
    """One step of a turn. `inputs` and `outputs` are empty where content is not recorded."""

    name: str
    started: float
    seconds: float
    inputs: dict[str, object] = {}
    outputs: dict[str, object] = {}
    attributes: dict[str, str | int | float | bool] = {}


class Trace(_View):
    """What happened in a turn."""

    turn_id: str
    conversation_id: str | None
    collection: str
    collection_version: str
    engine: str
    status: TurnStatus
    created: float
    seconds: float
    steps: tuple[TraceStep, ...]


class SearchResult(_View):
    """What a turn would have been given as evidence, more of it."""

    rewrite: RewriteEvent
    passages: list[Evidence]
    reranked: bool
    seconds: float


class Readiness(_View):
    """Whether a turn would be answered without waiting; `waiting_for` says in words for what."""

    ready: bool
    engine: str
    collection: str
    waiting_for: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
