"""`ChatService`: the services for one principal, and how they are opened.

Each method of a service asks `server.access` first (`@requires`), and reads what its principal sees. A running
turn is in `server.chat.running_turn`, and what all principals share is `ServiceCore`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeAlias

from sqlalchemy import Connection

from index.errors import IndexingError
from server.access import LOCAL, Principal
from server.chat.admin import AdminService, Probe, database_problem, disk_problem, search_problem
from server.chat.base import ChatError, translated
from server.chat.collections import CollectionService, work_of
from server.chat.conversations import ConversationService, TurnService
from server.chat.limits import Admission, PrincipalLimits
from server.chat.loaded_models import AnswerWatch, ChosenModels, Collections, ServiceModels
from server.chat.reviews import ReviewService
from server.chat.suggestions import Suggestion, SuggestionService
from server.chat.uploads import Uploads
from server.jobs import JobRunner
from server.plugins import parts
from server.settings import Settings
from server.store import Database, Runner, StoreError, jobs, turns
from server.tracing import Metrics, Tracing, open_tracing
from server.turn.models import ModelSource
from server.turn.run import TurnEngine

log = logging.getLogger(__name__)


class ServiceCore:
    """The models, the open collections, the store, the queue of turns and the jobs of one home."""

    def __init__(self, settings: Settings, database: Database, runner: Runner, tracing: Tracing) -> None:
        self.settings = settings
        self.database = database
        self.metrics = Metrics()
        self.tracing = tracing
        self.limits = PrincipalLimits(settings.limits)
        self.models = ServiceModels(settings)
        self.opened = Collections(settings, self.models)
        self.uploads = Uploads(settings.home, settings.server.max_body_mb << 20)
        self.resuming = asyncio.Lock()
        self.suggested: dict[tuple[str, str, int, str], list[Suggestion]] = {}
        """Questions to begin with, by collection and version; found by one at a time."""
        self.suggesting = asyncio.Lock()
        self.answers = AnswerWatch()
        self.turns: set[asyncio.Task[None]] = set()
        """Turns that go on without a reader."""
        self.disk = Probe("Writing to the disk", lambda: disk_problem(settings.home) or database_problem(database))
        self.searching = Probe("A search", lambda: search_problem(self.opened, settings.collection))
        self.mark = runner
        self.runner = JobRunner(database, runner, hands_on=settings.server.workers)
        self.admission = Admission(settings.server.concurrent_turns, self.metrics)
        self.answerers = tuple(filter(None, (make(self) for make in parts("answerers"))))
        self.replies = tuple(filter(None, (make(self) for make in parts("replies"))))
        self.engine = self._engine(self.models, settings)
        self.chosen = {
            name: ChosenModels(self.models, settings.model_copy(update={"llm": settings.llm.chosen(name)}))
            for name in settings.llm.choices
        }
        self.keepers = [self.models.keeper, *(models.keeper for models in self.chosen.values())]
        self.choices = {name: self._engine(models, models.keeper.settings) for name, models in self.chosen.items()}

    def _engine(self, models: ModelSource, settings: Settings) -> TurnEngine:
        return TurnEngine(
            collection=self.opened.get,
            models=models,
            settings=settings,
            answerers=self.answerers,
            replies=self.replies,
        )

    async def warm(self) -> None:
        """Load what a first turn would load. Failures are retried on first use."""
        engine = self.models.keeper.begin()
        try:
            await asyncio.to_thread(self.models.warm)
            await asyncio.to_thread(self.opened.get, self.settings.collection)
        except IndexingError as error:
            log.info("%s", error)
        await asyncio.wait({engine})


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
            await service.collections.resume_uploads()
            for name in {collection for kind, collection in begun if kind in ("index", "reindex")}:
                await service.collections.reindex(name)
            if any(kind == "embed" for kind, _ in begun):
                await service.collections.resume_embedding()
            if not service.settings.server.workers:
                # Left to workers while servers were set to.
                await asyncio.to_thread(service.core.runner.take, partial(work_of, service.core), 1)
        except (ChatError, StoreError) as error:
            log.warning("what another server had begun could not be taken over: %s", error)


TAKE_SECONDS = 0.5


async def take_jobs(core: ServiceCore, at_once: int) -> None:
    """Until cancelled: do the jobs that are left to workers, so many at once."""
    while True:
        try:
            await asyncio.to_thread(core.runner.take, partial(work_of, core), at_once)
        except StoreError as error:
            log.warning("jobs could not be taken: %s", error)
        await asyncio.sleep(TAKE_SECONDS)


class ChatService:
    """Everything that `principal` can do, by services.

    Every method may raise a `ChatError`: Forbidden where the role does not allow it, NotFound for what is not there for
    this principal.
    """

    def __init__(self, core: ServiceCore, principal: Principal = LOCAL) -> None:
        self.core = core
        self.settings = core.settings
        self.principal = principal
        self.turns = TurnService(core, principal)
        self.conversations = ConversationService(core, principal)
        self.collections = CollectionService(core, principal)
        self.reviews = ReviewService(core, principal)
        self.suggestions = SuggestionService(core, principal)
        self.admin = AdminService(core, principal)

    @property
    def going_on(self) -> set[asyncio.Task[None]]:
        """Turns that run without a reader; they are ended before the service closes."""
        return self.core.turns

    def as_principal(self, principal: Principal) -> ChatService:
        """Return the same service, acting for `principal`."""
        return ChatService(self.core, principal)


@asynccontextmanager
async def open_service(settings: Settings, *, warm: bool = True, jobs_at_once: int = 0) -> AsyncIterator[ChatService]:
    """A running service that acts for this machine, which may do everything (`as_principal` gives those of others).

    Models load in the background. Leaving it ends turns, jobs and the engine. It does the jobs that it makes, or by
    the setting `server.workers` leaves them to workers; with `jobs_at_once` it is a worker, which does so many at once.

    Work that an earlier process left unfinished is marked as interrupted first. Raises ChatError when the database
    cannot be opened.
    """
    with translated():
        database = await asyncio.to_thread(Database, settings.database_at)
    runner = await asyncio.to_thread(Runner, settings.home / "run", jobs.WORKERS if jobs_at_once else "")
    try:
        with translated():
            await database.write(runner.mark_interrupted)
        trace = settings.trace
        tracing = await asyncio.to_thread(open_tracing, trace.otlp_endpoint, content=trace.content)
        core = ServiceCore(settings, database, runner, tracing)
        warming = asyncio.create_task(core.warm()) if warm else None
        service = ChatService(core)
        forgetting = {
            asyncio.create_task(recover_orphans(service, runner)),
            asyncio.create_task(purge_expired(database, "traces", turns.forget_traces, settings.trace.days)),
            *([asyncio.create_task(take_jobs(core, jobs_at_once))] if jobs_at_once else ()),
        }
        try:
            yield service
        finally:
            ending = {*forgetting, *core.turns}
            for task in ending:
                task.cancel()
            await asyncio.wait(ending)
            if warming is not None:
                await asyncio.wait({warming})
            await asyncio.to_thread(core.runner.close)
            await asyncio.gather(*(keeper.close() for keeper in core.keepers))
            await asyncio.to_thread(core.opened.close)
            await core.limits.close()
            await asyncio.to_thread(tracing.close)
    finally:
        await asyncio.to_thread(runner.close)
        await asyncio.to_thread(database.close)
