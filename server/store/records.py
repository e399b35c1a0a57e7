"""Records that the store returns.

Times are seconds since the epoch, UTC. Texts come from people, documents and models alike and are
never trusted: a reader escapes them.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from index.documents import Where
from server.turn.events import DoneEvent, ErrorEvent, EvidenceEvent, RewriteEvent, Status


class StoreError(Exception):
    """The database cannot be used; the message says what to do."""


class StoreFull(StoreError):
    """A write failed; nothing stored before is lost."""


class HomeBusy(StoreError):
    """Another process has the home to itself; the message names it."""


class BackupError(StoreError):
    """A backup cannot be made or restored; nothing was changed."""


TurnStatus: TypeAlias = Literal[Status, "pending", "failed", "interrupted"]
"""pending: running now. failed: ended with an error event. interrupted: stopped by the reader, or the
server ended before the answer did; what had been shown until then stands in `answer`."""

JobState: TypeAlias = Literal["queued", "running", "done", "failed", "cancelled", "interrupted"]
JobKind: TypeAlias = Literal["upload", "index", "reindex", "delete", "sync", "embed"]
Rating: TypeAlias = Literal["up", "down"]


class View(BaseModel):
    """Frozen, can be written as JSON, and made of any object that has the same fields."""

    model_config = ConfigDict(frozen=True, from_attributes=True)


class Feedback(View):
    """A person's rating of a turn; the newest counts."""

    turn_id: str
    rating: Rating
    reason: str = ""
    comment: str = ""
    created: float


class StoredTurn(View):
    """A turn as it is kept. `done` is there after a good end, `error` after a bad one.

    `parent` is the turn it follows, `versions` are all that follow that one, oldest first, itself among them. `page` is
    the address that was read (its title where it has none), `where` the filter that was searched with, `opened` are the
    numbers of the sources that whoever asked opened.
    """

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
    parent: str | None = None
    versions: tuple[str, ...] = ()
    page: str = ""
    where: Where = {}
    opened: tuple[int, ...] = ()


class ConversationSummary(View):
    """A line in the list of conversations. `excerpt` shows where a search matched, else it is empty.

    `own` says whether it belongs to whoever asks; `model` is the one of `llm.choices` that answers, if any.
    """

    id: str
    title: str
    collection: str
    created: float
    updated: float
    turns: int
    excerpt: str = ""
    own: bool = True
    model: str = ""


class Share(View):
    """A link by which a conversation may be read until it expires."""

    id: str
    created: float
    expires: float


class ConversationDetail(ConversationSummary):
    """A conversation with the turns that are shown, oldest first.

    `shares` holds the links of one's own conversation that have not expired.
    """

    messages: tuple[StoredTurn, ...]
    shares: tuple[Share, ...] = ()


class FileResult(View):
    """Result for one file of a job."""

    document_id: str
    status: Literal["indexed", "unchanged", "failed", "skipped", "deleted"]
    message: str = ""
    passages: int = 0


class Job(View):
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


class TraceStep(View):
    """A call of a turn as `text.recorder` tells it, with those made within it.

    `inputs`, `output` and `prompt` are empty where content is not recorded.

    `prompt` holds the parts of what a model was sent, in order: `{message, role, literal}`, or
    `{message, role, value, expression}`; of one message they join to exactly its text. `source` is where in the code it
    was called. `id` and `parent` are OpenTelemetry's ids of the spans, in hexadecimal.
    """

    id: str = ""
    parent: str | None = None
    name: str
    started: float
    seconds: float
    inputs: dict[str, Any] = {}
    output: Any = None
    values: dict[str, Any] = {}
    prompt: tuple[dict[str, Any], ...] = ()
    error: str = ""
    message: str = ""
    source: str = ""
    calls: tuple[TraceStep, ...] = ()


class Trace(View):
    """Trace of a turn. `trace_id` is the caller's where the request came with a `traceparent`.

    `request` is what was asked for, beside the question. `dropped` counts calls that were too many to be kept.
    """

    turn_id: str
    conversation_id: str | None
    collection: str
    collection_version: str
    engine: str
    status: TurnStatus
    created: float
    seconds: float
    steps: tuple[TraceStep, ...]
    trace_id: str = ""
    span_id: str = ""
    parent_id: str = ""
    question: str = ""
    answer: str = ""
    request: dict[str, Any] = {}
    values: dict[str, Any] = {}
    dropped: int = 0


class TraceSummary(View):
    """A turn that left a trace. `question` is empty where content is not recorded."""

    turn_id: str
    created: float
    collection: str
    question: str
    status: TurnStatus
    seconds: float


class DayCounts(View):
    """Counts of one day (UTC, `2026-11-22`). `sentences` counts those checked against their citations.

    `doubted` answers say themselves that they may not answer; in `folded` ones quotes stand in the place of what a
    model wrote; `contradicted` sentences say something else than what they cite, and are unsupported, too.
    """

    day: str
    turns: int
    asked: int
    refused: int
    doubted: int
    folded: int
    failed: int
    rated_down: int
    sentences: int
    unsupported: int
    contradicted: int
