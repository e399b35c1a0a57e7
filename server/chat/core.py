"""`ServiceCore`: what a running service consists of, whoever acts.

Nothing here asks who may do what: whatever speaks to people is handed a `ChatService`, which does.
"""

from __future__ import annotations

import asyncio
import logging

from index.errors import IndexingError
from server.chat.admission import Admission, Patience
from server.chat.collections import Uploads
from server.chat.limits import PrincipalLimits
from server.chat.loaded_models import ChosenModels, ServiceModels
from server.chat.opened import Collections
from server.chat.pictures import PictureCache
from server.chat.probes import AnswerWatch, Probe, database_problem, disk_problem, search_problem
from server.chat.types import Suggestion
from server.jobs import JobRunner
from server.metrics import Metrics
from server.settings import Settings
from server.store import Database, Runner
from server.tracing import Tracing
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
        self.pictures = PictureCache()
        self.suggested: dict[tuple[str, str], list[Suggestion]] = {}
        """Questions to begin with, by collection and version; found by one at a time."""
        self.suggesting = asyncio.Lock()
        self.answers = AnswerWatch()
        self.disk = Probe("Writing to the disk", lambda: disk_problem(settings.home) or database_problem(database))
        self.searching = Probe("A search", lambda: search_problem(self.opened, settings.collection))
        self.mark = runner
        self.runner = JobRunner(database, runner)
        self.admission = Admission(settings.server.concurrent_turns, settings.server.queue_length, self.metrics)
        self.patience = Patience(self.admission, remote=settings.llm.remote)
        self.engine = self._engine(self.models, settings)
        self.chosen = {
            name: ChosenModels(self.models, settings.model_copy(update={"llm": settings.llm.chosen(name)}))
            for name in settings.llm.choices
        }
        self.keepers = [self.models.keeper, *(models.keeper for models in self.chosen.values())]
        self.choices = {name: self._engine(models, models.keeper.settings) for name, models in self.chosen.items()}

    def _engine(self, models: ModelSource, settings: Settings) -> TurnEngine:
        return TurnEngine(collection=self.opened.get, models=models, settings=settings)

    async def warm(self) -> None:
        """Load what a first turn would load. Failures are retried on first use."""
        engine = self.models.keeper.begin()
        try:
            await asyncio.to_thread(self.models.warm)
            await asyncio.to_thread(self.opened.get, self.settings.collection)
        except IndexingError as error:
            log.info("%s", error)
        await asyncio.wait({engine})
