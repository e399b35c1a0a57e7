"""One turn from the queue to the store: bounded, recorded, kept whatever becomes of its reader.

The turn itself is in `server.turn.run`, and admission in `server.chat.limits`; this module gives a turn its history
and a time limit, stores it as it begins, as it is shown and as it ends, and counts it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Literal, TypeVar

from pydantic import Field
from sqlalchemy import Connection

from index.documents import Where
from rewriter.protocol import Conversation, Message
from server.access import AuditEntry, Ownership, Principal, account, entry, group_of
from server.chat.base import ChatError, Unavailable
from server.chat.limits import QueueSlot
from server.store import StoreError, conversations, credentials, schema, turns
from server.store.records import TurnStatus, View
from server.turn.events import (
    DoneEvent,
    ErrorEvent,
    Event,
    EvidenceEvent,
    FoldEvent,
    RewriteEvent,
    TokenEvent,
    tell_evidence,
)
from server.turn.run import TurnInput
from server.turn.search import NO_PAGE, ReadPage
from server.turn.system_messages import history_for_model
from text.recorder import Call

if TYPE_CHECKING:
    from server.chat.service import ServiceCore
    from server.settings import LLMSettings

MAX_HISTORY_MESSAGES = 50
"""Longest history of a request; the newest of a longer conversation count."""

TURN_SECONDS = 360.0


def turn_seconds(llm: LLMSettings) -> float:
    """Return how long a turn may take, waiting for its place left out, in seconds."""
    return max(TURN_SECONDS, 1.2 * llm.timeout_seconds)


class TurnRequest(View):
    """A question to be answered.

    Either `conversation_id` (the stored turns are the history and this turn is added to them), or
    `history` (nothing is remembered of it but the trace), or neither.

    `regenerate_of` names a stored turn of the conversation of which this is a new version (retry, or an
    edited question): that turn is set aside with those after it, and can be shown again.
    `search_for` replaces what the rewriter would make of the question. `where` filters on passage
    metadata; `page` is what whoever asks reads. `answer_tokens` may only lower the limit of the settings. `model` is
    one of `llm.choices`; empty: the conversation's. `keep` says whether a turn without a conversation is stored, and
    with its texts.
    """

    question: str
    collection: str = Field(default="", description="Empty: the conversation's, else the default collection.")
    conversation_id: str | None = None
    history: tuple[Message, ...] | None = None
    search_for: str | None = None
    where: Where | None = None
    page: ReadPage | None = None
    regenerate_of: str | None = None
    answer_tokens: int | None = None
    model: str = ""
    keep: Literal["on", "off", "no texts"] = "on"


T = TypeVar("T")

log = logging.getLogger(__name__)

CHARS_PER_TOKEN = 4
"""What a token is taken to be where no model has counted."""

_REQUEST = {"search_for", "where", "page", "regenerate_of", "answer_tokens"}

RIGHTS_SECONDS = 1.0
"""How long an answer goes on at most once whoever asked for it may not have it any more."""

CHECKPOINT_SECONDS = 1.0
"""How much of an answer that is being shown may be missing after the process was killed."""


class RunningTurn(AsyncIterator[Event]):
    """A turn that has its place in the queue. Iterate it to run it, and close it in any case.

    Closing it early, or cancelling the task that iterates, stops the model; the turn is then kept as
    interrupted. Its trace belongs to what is current where it is made.
    """

    def __init__(
        self, core: ServiceCore, request: TurnRequest, ticket: QueueSlot, ownership: Ownership, principal: Principal
    ) -> None:
        self.id = uuid.uuid4().hex
        self._core = core
        self._request = request
        self._ticket = ticket
        self._ownership = ownership
        self._principal = principal
        self._content = core.settings.trace.content and request.keep == "on"
        self._keeps_texts = self._content or request.conversation_id is not None
        body = request.model_dump(mode="json", include=_REQUEST, exclude_none=True)
        self._call = core.tracing.begin_turn(
            self.id, request.conversation_id, request.collection, request.question, body, self._content
        )
        self._waiting = self._call.begin("wait")
        self._rewrite: RewriteEvent | None = None
        self._evidence: EvidenceEvent | None = None
        self._evidence_step: Call | None = None
        self._answer: list[str] = []
        self._checkpointed = self._looked = time.monotonic()
        self._problem = ""
        self._ended = False
        self._limit: asyncio.Timeout | None = None
        self._stopped: tuple[str, str] | None = None
        self._events = self._run()
        self.storing: asyncio.Task[bool] | None = None
        """Storing the turn as begun, where nobody has waited for it."""

    async def store(self) -> bool:
        """Store the turn as begun; False if its conversation is gone. A full disk stops nothing."""
        request = self._request
        if request.keep == "off":
            return True
        texts, page = self._keeps_texts, request.page or NO_PAGE
        row = {
            "id": self.id,
            "conversation_id": request.conversation_id,
            "collection": request.collection,
            "question": request.question if texts else "",
            "search_for": request.search_for if texts else None,
            "page": (page.address or page.words or None) if texts else None,
            "filter": json.dumps(request.where) if texts and request.where else None,
            "runner": self._core.mark.id,
            "owner": self._ownership.owner,
            "group_name": self._ownership.group,
        }
        title, again = conversations.clean_title(request.question), request.regenerate_of
        try:
            return await self._core.database.write(turns.begin, row, title=title, regenerate_of=again)
        except StoreError as error:
            self._not_stored(error)
            return True

    async def __anext__(self) -> Event:
        return await anext(self._events)

    async def aclose(self) -> None:
        """Stop the turn if it still runs, and give its place to the next."""
        try:
            await self._events.aclose()
        finally:
            await self._give_back()

    def stop(self, code: str, message: str) -> None:
        """End the turn soon with an error event that says why."""
        self._stopped = code, message
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time())

    async def _run(self) -> AsyncGenerator[Event, None]:
        """The turn's events once it has its place, with an error of its own where it takes too long."""
        core, request = self._core, self._request
        try:
            try:
                await self._within(None, self._ticket.wait())
                self._waiting.end()
                deadline = asyncio.get_running_loop().time() + turn_seconds(core.settings.llm)
                events = core.choices.get(request.model, core.engine).run(
                    TurnInput(
                        question=request.question,
                        collection=request.collection,
                        conversation=await self._within(deadline, self._history()),
                        search_for=request.search_for,
                        where=request.where,
                        page=request.page or NO_PAGE,
                        turn_id=self.id,
                        conversation_id=request.conversation_id,
                        answer_tokens=request.answer_tokens,
                        group=self._ownership.group,
                        kept=request.keep != "off",
                    )
                )
                async with aclosing(events):
                    while (event := await self._within(deadline, anext(events, None))) is not None:
                        yield await self._note(event)
            except TimeoutError:
                limit = turn_seconds(core.settings.llm)
                code, message = self._stopped or (
                    "turn_timeout",
                    f"The turn took longer than {limit:g} s and was stopped. Ask for less, or raise "
                    "llm.timeout_seconds.",
                )
                yield await self._note(self._error(code, message))
            except ChatError as error:
                yield await self._note(self._error(error.code, error.message))
            except Exception:  # whoever asked must hear that the turn has ended; the log has the traceback
                log.exception("turn %s failed", self.id)
                yield await self._note(self._error("internal_error", "The turn failed; the server's log says why."))
        finally:
            await self._give_back()

    async def _within(self, deadline: float | None, step: Awaitable[T]) -> T:
        """`step`, stopped at the deadline or by `stop`: around each wait, for the reader's own time is not ours.

        Meanwhile the turn's call is the current one.
        """
        if self._stopped:
            deadline = 0.0
        with self._call.current():
            async with asyncio.timeout_at(deadline) as self._limit:
                try:
                    return await step
                finally:
                    self._limit = None

    async def _history(self) -> Conversation:
        request = self._request
        if request.conversation_id is None:
            return history_for_model(request.history or ())
        conversation_id = request.conversation_id
        before = request.regenerate_of if self._problem else self.id
        try:
            return await self._core.database.read(
                turns.history, conversation_id, self._principal, before=before, limit=MAX_HISTORY_MESSAGES
            )
        except StoreError as error:
            raise Unavailable(str(error), code="store_failed") from error

    async def _note(self, event: Event) -> Event:
        """Remember and count an event; the last one is given out only when it is stored."""
        metrics = self._core.metrics
        match event:
            case RewriteEvent():
                self._rewrite = event
                metrics.rewrites.labels(event.decision).inc()
            case EvidenceEvent():
                self._evidence = event
                # Its passages are recorded when the turn has ended, so that they delay no token.
                self._evidence_step = self._call.begin("evidence")
            case TokenEvent():
                self._answer.append(event.text)
                self._checkpoint()
                await self._look()
            case FoldEvent():
                self._answer = ["".join(self._answer)[: event.start]]
            case DoneEvent():
                self._ended = True
                metrics.unsupported.inc(sum(not judged.supported for judged in event.support))
                self._core.answers.note(event)
                metrics.dropped_citations.inc(event.dropped_citations)
                metrics.tokens.labels("prompt").inc(event.prompt_tokens)
                metrics.tokens.labels("completion").inc(event.completion_tokens)
                self._count(event.status, event.seconds)
                await self._finish(event.status, event)
                if self._problem:
                    return event.model_copy(update={"warning": self._problem})
            case ErrorEvent():
                self._ended = True
                self._core.answers.note(event)
                step = self._call.begin("error")
                step.label(error=event.code)
                step.fail(event.code, event.message)
                step.end()
                metrics.errors.labels(event.code).inc()
                self._count("failed", event.seconds)
                await self._finish("failed", event)
            case _:
                pass
        return event

    def _count(self, status: str, seconds: dict[str, float]) -> None:
        self._core.metrics.turns.labels(status).inc()
        for stage, value in seconds.items():
            self._core.metrics.stage_seconds.labels(stage).observe(value)

    async def _look(self) -> None:
        """Stop the turn where the key that asked has ended, or the collection was taken from its groups."""
        who, now = self._principal, time.monotonic()
        if now - self._looked < RIGHTS_SECONDS:
            return
        self._looked = now

        def allowed(connection: Connection) -> bool:
            key = who.account.removeprefix("key:")
            ended = key != who.account and credentials.find_key(connection, key) is None
            granted = schema.groups_of(connection, self._request.collection)
            return not ended and group_of(who, granted) is not None

        with suppress(StoreError):
            if not await self._core.database.read(allowed):
                self.stop("not_allowed", "The key has ended, or the collection is not open to it any more.")

    def _checkpoint(self) -> None:
        now = time.monotonic()
        if now - self._checkpointed < CHECKPOINT_SECONDS or not self._keeps_texts or self._problem:
            return
        self._checkpointed = now
        answer = "".join(self._answer)
        self._core.database.write_later(lambda c: turns.checkpoint(c, self.id, answer), alone=False)

    async def _finish(self, status: TurnStatus, ending: DoneEvent | ErrorEvent | None) -> None:
        self._end_steps()
        trace = self._core.tracing.end(self._call, status, "".join(self._answer))
        tokens = self._tokens(ending)
        await self._core.limits.spend(self._principal, tokens)
        if self.storing is not None:
            await asyncio.wait({self.storing})
        if self._problem:
            return
        texts = self._keeps_texts
        noted = self._noted(status, tokens)

        def write(connection: Connection) -> None:
            turns.finish(
                connection,
                self.id,
                status=status,
                answer="".join(self._answer) if texts else "",
                rewrite=self._rewrite if texts else None,
                evidence=self._evidence if texts else None,
                ending=ending if texts else None,
                trace=trace,
            )
            account(connection, noted)

        try:
            await self._core.database.write(write)
        except StoreError as error:
            self._not_stored(error)

    def _tokens(self, ending: DoneEvent | ErrorEvent | None) -> int:
        """Return the tokens of the turn; for a stopped one, an estimate from the text read and written so far."""
        if isinstance(ending, DoneEvent):
            return ending.prompt_tokens + ending.completion_tokens
        read = sum(len(passage.text) for passage in self._evidence.passages) if self._evidence else 0
        return math.ceil((read + sum(map(len, self._answer))) / CHARS_PER_TOKEN)

    def _noted(self, status: TurnStatus, tokens: int) -> AuditEntry:
        """The turn as a row of the audit log, which is written with it and so delays no answer."""
        request, who = self._request, self._principal
        detail: dict[str, object] = {"tokens": tokens, "conversation": request.conversation_id or ""}
        if self._core.settings.keeps_questions and request.keep == "on":
            detail["question"] = request.question
        collection, group = request.collection, self._ownership.group
        return entry(who, "turn.ask", self.id, collection=collection, group=group, outcome=status, detail=detail)

    def _end_steps(self) -> None:
        """End the open calls of the turn; their inputs are written down only now, when nobody waits."""
        self._waiting.end()
        if (step := self._evidence_step) is not None and self._evidence is not None:
            tell_evidence(step, self._evidence)
            step.end(seconds=0.0)

    def _not_stored(self, error: StoreError) -> None:
        log.error("turn %s could not be stored: %s", self.id, error)
        self._core.metrics.store_failures.inc()
        self._problem = f"This turn was answered but not saved. {error}"

    def _error(self, code: str, message: str) -> ErrorEvent:
        return ErrorEvent(
            turn_id=self.id,
            conversation_id=self._request.conversation_id,
            code=code,
            message=message,
            answer="".join(self._answer),
        )

    async def _give_back(self) -> None:
        self._ticket.release()
        if not self._ended:
            self._ended = True
            self._count("interrupted", {})
            await self._finish("interrupted", None)
