"""The typed events of a turn, one stream that the HTTP API, the page and the terminal read alike; and its timed steps.

Order: `rewrite`, `evidence`, at times `nearest` or `step`, then `token`, `citation` and `support` interleaved, then
exactly one of `done` or `error`. The concatenated `token` texts are the answer as the user may see it: markers that
cite nothing, and the refusal token, never appear in them. A `fold` event takes back the end of that concatenation, and
what follows takes its place. A `support` event of the same offsets as an earlier one replaces it. Offsets named
`answer_*` count characters of the concatenation; `start`/`end` count characters of the document's text.

A step is a call below the current one (`text.recorder`), kept off the event loop within a limit. Texts of the user, the
documents and the model are in its inputs and outputs only; labels are names, counts and settings. Keeping and sending
them is `server.tracing`'s business.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from threading import Thread
from typing import Annotated, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from text.recorder import Call, current

Status: TypeAlias = Literal["answered", "quoted", "asked", "refused"]
"""answered: a model wrote. quoted: sentences of the documents are the answer. asked: the answer is a question back,
which names alternatives. refused: the documents do not seem to hold the answer."""
AnswerKind: TypeAlias = Literal["extractive", "abstractive", "yes/no", "unanswerable"]


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, from_attributes=True)


class QueryVariant(_Event):
    """One query of the search and its weights."""

    name: str
    text: str
    lexical: float
    dense: float


class PageBox(_Event):
    """A rectangle on a page, in points from the page's top left corner; pages count from 1."""

    page: int
    x0: float
    y0: float
    x1: float
    y1: float
    region: str = Field(default="", description="The kind of the page's part: text, table, table_caption, footnote, ….")


class Evidence(_Event):
    """A numbered passage as the model was given it."""

    n: int = Field(ge=1, description="The number the answer cites it by.")
    passage_id: str
    document_id: str
    title: str
    heading: list[str]
    page: int | None
    start: int
    end: int
    text: str = Field(description="The exact source text, document.text[start:end].")
    source: str = Field(description="Where the document can be opened; a path or an address, never trusted.")
    score: float
    ranks: dict[str, int]
    boxes: list[PageBox] = Field(
        default=[], description="Where on its pages the text stands, for documents with pages."
    )
    region: str = Field(default="", description="The kind of the page's part that most of it stands in, where known.")
    opening: str = Field(
        default="", description="What opens the code block or table within which the passage begins; empty elsewhere."
    )

    @property
    def opened(self) -> str:
        """The text below what opens it: Markdown that can be read alone."""
        return f"{self.opening}\n{self.text}" if self.opening else self.text

    @property
    def origin(self) -> int:
        """The offset in the document at which `opened` would begin; what lies before `start` is not the passage's."""
        return self.start - (len(self.opened) - len(self.text))


class RewriteEvent(_Event):
    """The query of the turn."""

    type: Literal["rewrite"] = "rewrite"
    question: str
    text: str
    decision: str
    confidence: float | None = None
    parts: list[str] = Field(default=[], description="The questions that are answered one by one instead.")
    reason: str = ""
    expansion: list[str] = Field(default=[], description="Terms of the conversation that were added to the question.")
    history_probability: float | None = Field(
        default=None, description="Calibrated probability that the question cannot be understood alone."
    )
    rewriter: str
    variants: list[QueryVariant]
    seconds: float


class EvidenceEvent(_Event):
    """The evidence handed to the answerer."""

    type: Literal["evidence"] = "evidence"
    passages: list[Evidence]
    reranked: bool
    seconds: float


class Quotation(_Event):
    """A sentence of passage `n`, with its offsets in the document and how well it matches the question (0 to 1)."""

    n: int
    quote: str
    start: int
    end: int
    score: float


class NearestEvent(_Event):
    """The sentences nearest to the question, best first, told where a model is about to read for a while."""

    type: Literal["nearest"] = "nearest"
    quotes: list[Quotation]
    sure: bool = Field(default=False, description="Whether one of them probably answers the question.")


class StepEvent(_Event):
    """How far a slow way of answering has come: `done` of `of` things that `text` names. Told before any token."""

    type: Literal["step"] = "step"
    name: str
    done: int
    of: int
    text: str


class TokenEvent(_Event):
    """The next piece of the answer."""

    type: Literal["token"] = "token"
    text: str


class FoldEvent(_Event):
    """Take back a model's text from character `start` on, because the documents do not bear it out.

    Citations and support from there on are void. The tokens that follow stand in its place.
    """

    type: Literal["fold"] = "fold"
    start: int


class CitationEvent(_Event):
    """A checked citation marker that has just been shown.

    `quote` is the sentence of the passage that best supports what was said, with its offsets in the
    document; `answer_start`/`answer_end` span the marker.
    """

    type: Literal["citation"] = "citation"
    n: int
    passage_id: str
    document_id: str
    title: str
    heading: list[str]
    page: int | None
    quote: str
    start: int
    end: int
    answer_start: int
    answer_end: int
    attributed: bool = Field(
        default=False, description="True where the model cited nothing and the server matched the sentence itself."
    )
    url: str = Field(default="", description="The source's own address at the sentence, where it has one.")


class SupportEvent(_Event):
    """How well a finished sentence of the answer is supported by what it cites (0 to 1)."""

    type: Literal["support"] = "support"
    answer_start: int
    answer_end: int
    cited: list[int]
    score: float
    supported: bool
    contradicted: bool = Field(
        default=False, description="Whether what it cites says something else: a number, a name, a negation is turned."
    )


class Alternative(_Event):
    """Something that may be meant: the section of passage `n`, as words without markup."""

    n: int
    text: str


class DoneEvent(_Event):
    """The turn ended well. `status` `quoted` means that sentences of the documents are the answer.

    `folded` is then what a model wrote, if it wrote something that the documents do not bear out. `asked` means that
    the answer is a question back, which names `alternatives`; the next message answers it.
    """

    type: Literal["done"] = "done"
    turn_id: str
    conversation_id: str | None
    status: Status
    answer: str
    finish_reason: Literal["stop", "length"] = "stop"
    citations: list[CitationEvent]
    support: list[SupportEvent]
    dropped_citations: int = Field(description="Markers removed because they cited nothing in the evidence.")
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: dict[str, float] = Field(description="rewrite, search, rerank, first_token, total; seconds.")
    warning: str = Field(default="", description="What a person should know although the turn went well.")
    doubted: bool = Field(default=False, description="Whether the answer says itself that it may not answer.")
    written: str = Field(default="", description="The id of the answer, where a person wrote it ahead; else empty.")
    folded: str = Field(
        default="", description="A model's text that the documents do not bear out, in whose place `answer` stands."
    )
    alternatives: list[Alternative] = Field(
        default=[], description="What may be meant, where the turn asks back instead of answering."
    )
    answerable: float | None = Field(
        default=None, description="Calibrated chance that the passages answer the question; None where nobody asked."
    )
    answer_kind: AnswerKind | None = Field(
        default=None,
        description="Told by the answer's form; None for a courtesy, and where the turn asks back.",
    )


class ErrorEvent(_Event):
    """The turn failed; `answer` holds the text streamed so far."""

    type: Literal["error"] = "error"
    turn_id: str
    conversation_id: str | None
    code: str = Field(description="Stable name such as llm_unreachable, llm_timeout, collection_not_found.")
    message: str = Field(description="One sentence for a person: what happened and what to do.")
    answer: str = ""
    seconds: dict[str, float] = {}


Event: TypeAlias = Annotated[
    RewriteEvent
    | EvidenceEvent
    | NearestEvent
    | StepEvent
    | TokenEvent
    | FoldEvent
    | CitationEvent
    | SupportEvent
    | DoneEvent
    | ErrorEvent,
    Field(discriminator="type"),
]


BLOCKING_SECONDS = 30.0
"""Longest opening of a collection, search and rerank, before the turn is given up."""

T = TypeVar("T")


class TurnFailed(Exception):
    """Ends a turn with an error event of this code; its text is for a person."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


async def run_blocking(call: Callable[[], T], step: Callable[[], str] = lambda: "search") -> T:
    """`call` in a thread. Raises TurnFailed after `BLOCKING_SECONDS`, in the name of the `step` under way."""
    try:
        async with asyncio.timeout(BLOCKING_SECONDS):
            return await asyncio.to_thread(call)
    except TimeoutError as error:
        raise TurnFailed(
            f"{step()}_timeout",
            f"The {step()} took longer than {BLOCKING_SECONDS:g} s. Try again when less is going on.",
        ) from error


def within(seconds: float, call: Callable[[], T]) -> T:
    """`call` in a thread of its own, waited for so long; raises TimeoutError, and leaves it to itself. Blocks."""
    answer = Future[T]()

    def work() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001  raised where it is waited for
            answer.set_exception(error)

    Thread(target=copy_context().run, args=(work,), name="within", daemon=True).start()
    return answer.result(seconds)


def tell_evidence(step: Call, event: EvidenceEvent) -> None:
    """Record the evidence given to the model."""
    step.label(passages=len(event.passages), reranked=event.reranked)
    step.output({"passages": event.passages})


class Stopwatch:
    """The times of one turn: of each step, to the first token, in all. Seconds."""

    def __init__(self) -> None:
        self.running = "search"
        self._began = time.perf_counter()
        self._steps: dict[str, Call] = {}
        self._first_token: float | None = None

    def begin(self, name: str) -> Call:
        """A step begins, as a child of what is current. In `with` it is what is current there, and has ended behind."""
        self.running = name
        self._steps[name] = current().begin(name)
        return self._steps[name]

    def first_token(self) -> None:
        """Something is shown; only the first time counts."""
        if self._first_token is None:
            self._first_token = time.perf_counter() - self._began

    def of(self, *names: str) -> float:
        """Seconds of these steps together, as far as they were taken."""
        return sum(seconds for name, seconds in self.all().items() if name in names)

    def all(self) -> dict[str, float]:
        """Seconds by step, `first_token` once there was one, and `total` up to now."""
        ended = {name: step.seconds for name, step in self._steps.items() if step.seconds is not None}
        seconds = {} if self._first_token is None else {"first_token": self._first_token}
        return {**ended, **seconds, "total": time.perf_counter() - self._began}
