"""`ChatService`: the facade itself, and how one is opened.

It checks, bounds and joins; conversations and documents are in the desks it is made of, and a running
turn is in `server.chat.turns`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from index.errors import IndexingError
from index.query import Where
from rewriter.conversation import Conversation, Message
from server.chat.admission import Admission
from server.chat.collections import Collections
from server.chat.conversations import ConversationMixin, clean, store_errors
from server.chat.documents import DocumentMixin, in_thread
from server.chat.engine import EngineKeeper, limited
from server.chat.errors import InvalidRequest, NotFound
from server.chat.models import Models
from server.chat.retention import forget_old_traces
from server.chat.turns import RunningTurn, TurnContext
from server.chat.types import Readiness, SearchResult, TurnRequest
from server.chat.uploads import Uploads
from server.jobs import JobRunner
from server.metrics import Metrics
from server.rewriters import RewriterKeeper
from server.settings import Settings
from server.store import Database, Runner
from server.tracing import SpanExport, open_export
from server.turn.events import Event
from server.turn.pipeline import TurnEngine
from server.turn.search import TurnSearch

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from index.rerank import Reranker
    from rewriter.protocol import Rewriter

log = logging.getLogger(__name__)

MAX_FILTER_KEYS = 20
MAX_FILTER_VALUES = 200
MAX_RESULTS = 200
HISTORY_CHARS_PER_TURN = 8
"""A message of the history may be this many times as long as a question."""


class ChatService(ConversationMixin, DocumentMixin):
    """Everything a reader of the chat can do. Every method may raise a `ChatError`."""

    def __init__(
        self, settings: Settings, database: Database, runner: Runner, export: SpanExport | None = None
    ) -> None:
        self.settings = settings
        self.database = database
        self.metrics = Metrics()
        self.models = Models(settings)
        self.opened = Collections(settings, self.models)
        self.uploads = Uploads(settings.home, settings.server.max_body_mb << 20)
        self.runner = JobRunner(database, runner)
        self.keeper = EngineKeeper(settings)
        self.rewriters = RewriterKeeper(settings)
        self._admission = Admission(settings.server.concurrent_turns, settings.server.queue_length, self.metrics)
        self._around = TurnContext(settings, database, runner, self.metrics, export, self._turn_engine)
        self._reranker_problem = ""

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

    async def begin(self, request: TurnRequest) -> RunningTurn:
        """Check a request, give it a place in the queue and store it; iterating the result runs it.

        For readers that must know of a refusal before they say anything; whoever calls this closes the
        result. Raises InvalidRequest, NotFound, QueueFull.
        """
        checked = await self._checked(request)
        running = RunningTurn(self._around, checked, self._admission.enter())
        try:
            if not await running.store():
                raise NotFound(f"There is no conversation {checked.conversation_id!r}.", code="conversation_not_found")
        except BaseException:
            await running.aclose()
            raise
        return running

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
        from server.chat.results import search_result

        request = await self._checked(
            TurnRequest(
                question=question, collection=collection, history=tuple(history), where=where, search_for=search_for
            )
        )
        ticket = self._admission.enter()
        try:
            await ticket.wait()
            search = await self._turn_search()
            found = await in_thread(
                lambda: search.find(
                    request.question,
                    collection=request.collection,
                    conversation=Conversation(request.history or ()),
                    k=max(1, min(k, MAX_RESULTS)),
                    where=request.where,
                    search_for=request.search_for,
                )
            )
            return search_result(found, search.rewriter.name)
        finally:
            ticket.release()

    async def readiness(self) -> Readiness:
        """Whether a question to the default collection would be answered without waiting for anything to load."""
        name = self.settings.collection
        waiting, problems = list[str](), list[str]()
        engine = self.keeper.running
        if self.keeper.problem:
            problems.append(self.keeper.problem)
        elif engine is None:
            waiting.append("the language model")
        elif not await asyncio.to_thread(engine.healthy):
            problems.append("The language model does not answer.")
        if self.rewriters.problem:
            problems.append(self.rewriters.problem)
        if self._reranker_problem:
            problems.append(self._reranker_problem)
        if not self.opened.is_open(name):
            if await in_thread(lambda: self.opened.exists(name)):
                waiting.append(f"the collection {name}")
            else:
                problems.append(f"There is no collection {name} yet. Index documents into it.")
        return Readiness(
            ready=not waiting and (engine is not None and not problems),
            engine=engine.name if engine else "",
            collection=name,
            waiting_for=tuple(waiting),
            problems=tuple(problems),
        )

    async def warm(self) -> None:
        """Load what a first turn would load. What fails is tried again by whoever needs it."""
        engine = self.keeper.begin()
        try:
            await asyncio.to_thread(self.rewriters.rewriter)
            await asyncio.to_thread(self._reranker)
            await asyncio.to_thread(self.opened.get, self.settings.collection)
        except IndexingError as error:
            log.info("%s", error)
        await asyncio.wait({engine})

    async def _turn_engine(self, request: TurnRequest) -> tuple[TurnEngine, str]:
        """What answers a request, and the name of the model at work."""
        engine = await self.keeper.engine()
        model = limited(engine.chat_model(), request.answer_tokens, self.settings)
        turn_engine = TurnEngine(
            collection=self.opened.get,
            rewriter=await self._rewriter(engine.chat_model()),
            settings=self.settings,
            chat_model=lambda: model,
            reranker=await self._loaded_reranker(),
        )
        return turn_engine, engine.name

    async def _turn_search(self) -> TurnSearch:
        """What searches as a turn does; the language model is waited for only where it rewrites."""
        prompted = self.settings.rewriter.kind == "prompted"
        model = (await self.keeper.engine()).chat_model() if prompted else None
        return TurnSearch(
            collection=self.opened.get,
            rewriter=await self._rewriter(model),
            settings=self.settings,
            reranker=await self._loaded_reranker(),
        )

    async def _rewriter(self, model: BaseChatModel | None) -> Rewriter:
        """The rewriter of now, without the detour over a thread where there is nothing to load."""
        if self.rewriters.at_hand:
            return self.rewriters.rewriter(model)
        return await asyncio.to_thread(self.rewriters.rewriter, model)

    async def _loaded_reranker(self) -> Reranker | None:
        """`_reranker`, without the detour over a thread where there is nothing to load."""
        return self._reranker() if self.models.reranker_at_hand else await asyncio.to_thread(self._reranker)

    def _reranker(self) -> Reranker | None:
        """The cross-encoder, or none where it cannot be loaded: a search without it is better than no search."""
        from server.registry import RegistryError

        try:
            reranker = self.models.reranker()
        except (IndexingError, RegistryError) as error:
            if not self._reranker_problem:
                log.warning("searching without the cross-encoder: %s", error)
            self._reranker_problem = str(error)
            return None
        self._reranker_problem = ""
        return reranker

    async def _checked(self, request: TurnRequest) -> TurnRequest:
        """The request within the bounds of the settings, its collection filled in."""
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
        collection = request.collection
        if request.conversation_id is not None:
            collection = collection or await self._of_conversation(request.conversation_id, request.regenerate_of)
        elif request.regenerate_of is not None:
            raise InvalidRequest("Only a turn of a conversation can be replaced.", param="regenerate_of")
        collection = collection or self.settings.collection
        if not self.opened.is_open(collection) and not await in_thread(lambda: self.opened.exists(collection)):
            raise NotFound(
                f"There is no collection {collection[:80]!r}. Index documents into it first.",
                code="collection_not_found",
                param="collection",
            )
        return request.model_copy(
            update={
                "question": question,
                "search_for": search_for,
                "history": history,
                "collection": collection,
                "where": _checked_filter(request.where),
            }
        )

    async def _of_conversation(self, conversation_id: str, regenerate_of: str | None) -> str:
        """The collection of a conversation that has the turn to be replaced, if one is named."""
        conversation = await self.conversation(conversation_id)
        if regenerate_of is not None and regenerate_of not in {turn.id for turn in conversation.messages}:
            raise NotFound(
                f"There is no turn {regenerate_of[:80]!r} in this conversation.",
                code="turn_not_found",
                param="regenerate_of",
            )
        return conversation.collection


def _checked_filter(where: Where | None) -> Where | None:
    if where is None:
        return None
    values = sum(len(value) if isinstance(value, list) else 1 for value in where.values())
    if len(where) > MAX_FILTER_KEYS or values > MAX_FILTER_VALUES:
        raise InvalidRequest(f"A filter may have {MAX_FILTER_KEYS} keys and {MAX_FILTER_VALUES} values.", param="where")
    return where


@asynccontextmanager
async def open_service(settings: Settings, *, warm: bool = True) -> AsyncIterator[ChatService]:
    """A running service; models load in the background. Leaving it ends turns, jobs and the engine.

    What an earlier process left unfinished is marked as interrupted first. Raises ChatError when the
    database cannot be opened.
    """
    with store_errors():
        database = await asyncio.to_thread(Database, settings.home / "anaphora.db")
    runner = await asyncio.to_thread(Runner, settings.home / "run")
    try:
        with store_errors():
            await database.write(runner.mark_interrupted)
        endpoint = settings.trace.otlp_endpoint
        export = await asyncio.to_thread(open_export, endpoint) if endpoint else None
        service = ChatService(settings, database, runner, export)
        warming = asyncio.create_task(service.warm()) if warm else None
        forgetting = asyncio.create_task(forget_old_traces(database, settings.trace.days))
        try:
            yield service
        finally:
            forgetting.cancel()
            await asyncio.wait({forgetting})
            if warming is not None:
                await asyncio.wait({warming})
            await asyncio.to_thread(service.runner.close)
            await service.keeper.close()
            await asyncio.to_thread(service.opened.close)
            if export is not None:
                await asyncio.to_thread(export.close)
    finally:
        await asyncio.to_thread(runner.close)
        await asyncio.to_thread(database.close)
