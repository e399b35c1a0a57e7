"""`ChatService`: the facade itself, and how one is opened.

It acts for one principal: each method asks `server.access.policy` first, and reads what that principal sees. It
checks, bounds and joins; conversations, documents and keys are in the mixins it is made of, a running turn is in
`server.chat.turns`, and what all principals share is `server.chat.core`. Old traces are forgotten here while a
service is open.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

from sqlalchemy import Connection

from index.query import Where
from rewriter.protocol import Message
from server.access import LOCAL, Ownership, Principal
from server.chat.administration import AuditMixin, GrantMixin, JobMixin, RunMixin, StatisticsMixin
from server.chat.admission import QueueSlot
from server.chat.authorization import requires
from server.chat.conversations import SharingMixin
from server.chat.core import ServiceCore
from server.chat.documents import DocumentMixin
from server.chat.error_mapping import (
    ChatError,
    InvalidRequest,
    NotFound,
    Unavailable,
    clean,
    index_errors,
    run_blocking,
    store_errors,
)
from server.chat.pictures import PictureMixin
from server.chat.reviews import ReviewMixin
from server.chat.suggestions import SuggestionMixin
from server.chat.turns import RunningTurn
from server.chat.types import Readiness, SearchResult, TurnRequest
from server.settings import Settings
from server.store import Database, Runner, StoreError, audit, conversations, jobs, turns
from server.store.records import ConversationSummary
from server.tracing import open_tracing
from server.turn.events import Event
from server.turn.evidence import numbered
from server.turn.steps import TurnFailed
from server.turn.system_messages import history_for_model

log = logging.getLogger(__name__)

EVERY_SECONDS = 3600.0
AT_ONCE = 200
"""Rows deleted in one transaction, so that a turn's own writes never wait long."""


Forget: TypeAlias = Callable[[Connection, float, int], int]
"""Deletes at most so many rows from before a time, and says how many."""


async def purge_expired(database: Database, what: str, forget: Forget, days: int) -> None:
    """Delete what is older than `days`, now and every hour, until cancelled; 0 days delete nothing."""
    while days:
        before = time.time() - days * 86_400
        try:
            while await database.write(forget, before, AT_ONCE) == AT_ONCE:
                pass
        except StoreError as error:
            log.warning("old %s could not be deleted: %s", what, error)
        await asyncio.sleep(EVERY_SECONDS)


TAKE_OVER_SECONDS = 5.0


async def recover_orphans(service: ChatService, runner: Runner) -> None:
    """Until cancelled: mark what servers have begun that have ended since, and go on with their work on collections.

    One of those that are left does it. A source that was being read is read again when it is due.
    """

    def mark(connection: Connection) -> list[tuple[str, str]]:
        begun = jobs.begun_by(connection, runner.dead(connection))
        runner.mark_interrupted(connection)
        return begun

    while True:
        await asyncio.sleep(TAKE_OVER_SECONDS)
        try:
            await asyncio.to_thread(service.core.runner.settle)
            dead = await service.core.database.read(runner.dead)
            begun = await service.core.database.write(mark) if dead else []
            # One that was stopped has marked its own.
            await service.resume_uploads()
            for name in {collection for kind, collection in begun if kind in ("index", "reindex")}:
                await service.reindex(name)
        except (ChatError, StoreError) as error:
            log.warning("what another server had begun could not be taken over: %s", error)


MAX_FILTER_KEYS = 20
MAX_FILTER_VALUES = 200
MAX_RESULTS = 200
HISTORY_CHARS_PER_TURN = 8
"""A message of the history may be this many times as long as a question."""


class ChatService(
    SharingMixin,
    ReviewMixin,
    DocumentMixin,
    PictureMixin,
    SuggestionMixin,
    JobMixin,
    RunMixin,
    StatisticsMixin,
    GrantMixin,
    AuditMixin,
):
    """Everything that `principal` can do. Every method may raise a `ChatError`: Forbidden where the role does not
    allow it, NotFound for what is not there for this principal."""

    def __init__(self, core: ServiceCore, principal: Principal = LOCAL) -> None:
        self.core = core
        self.settings = core.settings
        self.principal = principal

    def as_principal(self, principal: Principal) -> ChatService:
        """The same service, acting for `principal`."""
        return ChatService(self.core, principal)

    @requires("ask")
    async def turn(self, request: TurnRequest) -> AsyncIterator[Event]:
        """Answer a question as typed events, ending with exactly one `done` or `error`.

        Refusals (`InvalidRequest`, `NotFound`, `QueueFull`) are raised before the first event. Closing
        the iterator, or cancelling the task that reads it, stops the model; the turn is kept as
        interrupted with what had been shown.
        """
        running = await self.begin(request)
        try:
            async for event in running:
                yield event
        finally:
            await running.aclose()

    @requires("ask")
    async def begin(self, request: TurnRequest) -> RunningTurn:
        """Check a request, give it a place in the queue and store it; iterating the result runs it.

        For readers that must know of a refusal before they say anything; whoever calls this closes the
        result. Raises InvalidRequest, NotFound, QueueFull, LimitReached.
        """
        checked, ownership = await self._checked(request)
        await self.core.limits.require_tokens(self.principal)
        running = RunningTurn(self.core, checked, self._place(), ownership, self.principal)
        if checked.conversation_id is None:
            # No conversation can be missing, so nobody has to wait for the disk.
            running.storing = asyncio.create_task(running.store())
            return running
        try:
            if not await running.store():
                raise NotFound(f"There is no conversation {checked.conversation_id!r}.", code="conversation_not_found")
        except BaseException:
            await running.aclose()
            raise
        return running

    def _place(self) -> QueueSlot:
        """A place in the queue, within what whoever acts may have. Raises QueueFull, LimitReached."""
        at_most = self.core.limits.quota(self.principal, "concurrent_turns")
        return self.core.admission.enter(self.principal.id, at_most)

    @requires("ask")
    async def search(
        self,
        question: str,
        *,
        collection: str = "",
        history: Sequence[Message] = (),
        k: int = 20,
        where: Where | None = None,
        search_for: str | None = None,
    ) -> SearchResult:
        """Search as a turn would: rewrite, legs, fusion, rerank; best first. Takes a turn's place meanwhile."""
        request, ownership = await self._checked(
            TurnRequest(
                question=question, collection=collection, history=tuple(history), where=where, search_for=search_for
            )
        )
        ticket = self._place()
        try:
            await ticket.wait()
            search = await self.core.engine.search(ownership.group)
            with index_errors():
                result = await search.search(
                    request.question,
                    collection=request.collection,
                    conversation=history_for_model(request.history or ()),
                    k=max(1, min(k, MAX_RESULTS)),
                    where=request.where,
                    search_for=request.search_for,
                )
        except TurnFailed as error:
            raise Unavailable(str(error), code=error.code) from error
        finally:
            ticket.release()
        return SearchResult(
            rewrite=result.plan.event(),
            passages=[numbered(n, hit) for n, hit in enumerate(result.hits, start=1)],
            reranked=result.reranked,
            seconds=sum(result.seconds.values()),
        )

    @requires("ready")
    async def readiness(self) -> Readiness:
        """Whether a question to the default collection would be answered without waiting for anything to load.

        The reason is shown to operators of every group.
        """
        readiness = await self._readiness()
        return readiness if self.may("server") else Readiness(ready=readiness.ready, engine="", collection="")

    @requires("ready")
    async def admit(self) -> None:
        """Count a request that did not come by the API. Raises LimitReached."""
        await self.core.limits.request(self.principal)

    @requires("server")
    def exposition(self) -> bytes:
        """Return the server's metrics in Prometheus' text format."""
        return self.core.metrics.exposition()

    async def _readiness(self) -> Readiness:
        core, name = self.core, self.settings.collection
        waiting, problems = list[str](), list[str]()
        engine = core.models.keeper.running
        if core.models.keeper.problem:
            problems.append(core.models.keeper.problem)
        elif engine is None:
            waiting.append("the language model")
        elif not await asyncio.to_thread(engine.healthy):
            problems.append("The language model does not answer.")
        elif core.answers.problem:
            problems.append(core.answers.problem)
        if core.models.rewriters.problem:
            problems.append(core.models.rewriters.problem)
        if core.models.reranker_problem:
            problems.append(core.models.reranker_problem)
        if problem := await core.disk.problem():
            problems.append(problem)
        if core.opened.is_open(name) or core.opened.problem(name):
            # It is searched even where a problem is known: that is how its end is noticed.
            fails = await core.searching.problem()
            if problem := core.opened.problem(name) or fails:
                problems.append(problem)
        elif await run_blocking(lambda: core.opened.exists(name)):
            waiting.append(f"the collection {name}")
        else:
            problems.append(f"There is no collection {name} yet. Index documents into it.")
        return Readiness(
            ready=not waiting and (engine is not None and not problems),
            engine=engine.name if engine else "",
            collection=name,
            waiting_for=tuple(waiting),
            problems=tuple(problems),
            warnings=tuple(filter(None, (await core.limits.look(), core.opened.outdated(name)))),
        )

    async def _checked(self, request: TurnRequest) -> tuple[TurnRequest, Ownership]:
        """The request within the bounds of the settings, its collection filled in; and whose the turn is."""
        server = self.settings.server
        question = clean(request.question, server.max_question_chars, "question").strip()
        if not question:
            raise InvalidRequest("The question is empty.", code="empty_question", param="question")
        search_for = request.search_for
        if search_for is not None:
            search_for = clean(search_for, server.max_question_chars, "search_for").strip() or None
        history = request.history
        if history is not None:
            if request.conversation_id is not None:
                raise InvalidRequest("Give either a conversation or a history, not both.", param="history")
            if len(history) > server.max_history_turns:
                raise InvalidRequest(
                    f"The history has {len(history)} messages; {server.max_history_turns} are allowed. "
                    "Leave out the oldest.",
                    code="history_too_long",
                    param="history",
                )
            limit = server.max_question_chars * HISTORY_CHARS_PER_TURN
            history = tuple(Message(turn.role, clean(turn.text, limit, "history")) for turn in history)
        collection, model = request.collection, self._demand_choice(request.model)
        if request.conversation_id is not None:
            conversation = await self._of_conversation(request.conversation_id, request.regenerate_of)
            collection, model = collection or conversation.collection, model or conversation.model
        elif request.regenerate_of is not None:
            raise InvalidRequest("Only a turn of a conversation can have versions.", param="regenerate_of")
        collection = collection or await self.default_collection()
        ownership = await self.existing(collection)
        checked = request.model_copy(
            update={
                "question": question,
                "search_for": search_for,
                "history": history,
                "collection": collection,
                "model": model,
                "where": _checked_filter(request.where),
            }
        )
        return checked, ownership

    async def _of_conversation(self, conversation_id: str, regenerate_of: str | None) -> ConversationSummary:
        """A conversation that has the turn of which a new version is asked for, if one is named."""
        await self.demand_change(conversation_id)
        if regenerate_of is None:
            # Its turns are not read: they hold all the passages that were ever shown here.
            return await self._conversation(conversation_id, conversations.summary)
        conversation = await self.conversation(conversation_id)
        versions = {version for turn in conversation.messages for version in turn.versions}
        if regenerate_of not in versions:
            raise NotFound(
                f"There is no turn {regenerate_of[:80]!r} in this conversation.",
                code="turn_not_found",
                param="regenerate_of",
            )
        return conversation


def _checked_filter(where: Where | None) -> Where | None:
    if where is None:
        return None
    values = sum(len(value) if isinstance(value, list) else 1 for value in where.values())
    if len(where) > MAX_FILTER_KEYS or values > MAX_FILTER_VALUES:
        raise InvalidRequest(f"A filter may have {MAX_FILTER_KEYS} keys and {MAX_FILTER_VALUES} values.", param="where")
    return where


@asynccontextmanager
async def open_service(settings: Settings, *, warm: bool = True) -> AsyncIterator[ChatService]:
    """A running service that acts for this machine, which may do everything (`as_principal` gives those of others).

    Models load in the background. Leaving it ends turns, jobs and the engine.

    Work that an earlier process left unfinished is marked as interrupted first. Raises ChatError when the database
    cannot be opened.
    """
    with store_errors():
        database = await asyncio.to_thread(Database, settings.database_at)
    runner = await asyncio.to_thread(Runner, settings.home / "run")
    try:
        with store_errors():
            await database.write(runner.mark_interrupted)
        trace = settings.trace
        tracing = await asyncio.to_thread(open_tracing, trace.otlp_endpoint, content=trace.content)
        core = ServiceCore(settings, database, runner, tracing)
        warming = asyncio.create_task(core.warm()) if warm else None
        service = ChatService(core)
        forgetting = {
            asyncio.create_task(recover_orphans(service, runner)),
            asyncio.create_task(purge_expired(database, "traces", turns.forget_traces, settings.trace.days)),
            asyncio.create_task(purge_expired(database, "rows of the audit log", audit.trim, settings.audit.days)),
        }
        try:
            yield service
        finally:
            for task in forgetting:
                task.cancel()
            await asyncio.wait(forgetting)
            if warming is not None:
                await asyncio.wait({warming})
            await asyncio.to_thread(core.runner.close)
            await asyncio.gather(*(keeper.close() for keeper in core.keepers))
            await asyncio.to_thread(core.opened.close)
            await asyncio.to_thread(tracing.close)
    finally:
        await asyncio.to_thread(runner.close)
        await asyncio.to_thread(database.close)
