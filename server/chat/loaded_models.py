"""The models and collections of a service: loaded or opened on first use, and kept."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import os
import threading
import time
from contextvars import Context
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from index.errors import CollectionCorrupt, CollectionNotFound, IndexingError
from server.chat.base import Unavailable
from server.engines import Engine, RemoteEngine
from server.rewriters import RewriterManager
from server.settings import Settings
from server.store.records import View
from server.turn.events import DoneEvent, ErrorEvent
from server.turn.models import AnswerStyle, TurnModels, WritingPace, answer_style, writes_fast
from text.languages import analysis

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from index.collection import Collection
    from index.encoders import Encoder
    from index.rerank import Reranker
    from rewriter.protocol import Rewriter
    from server.turn.support import PairModel


class CollectionSummary(View):
    """A collection. `busy` is the id of the job that is changing it, if any.

    `problem` says what is damaged, as far as is known; `answers` is false where no version of it can be read. Of its
    passages so many as `without_vector` are found by words alone until they are embedded, which goes on by itself.
    """

    name: str
    documents: int
    passages: int
    version: str
    updated: float
    busy: str | None = None
    problem: str = ""
    answers: bool = True
    without_vector: int = 0


log = logging.getLogger(__name__)


class Models:
    """The encoder and the cross-encoder. Loading blocks; both may be asked for from any thread.

    Raises `index.errors.ModelUnavailable` or `server.registry.RegistryError`, and tries again next time.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._encoder_lock = threading.Lock()
        self._reranker_lock = threading.Lock()
        self._encoder: Encoder | None = None
        self._reranker: Reranker | None = None

    def encoder(self) -> Encoder:
        """The embedding model of the settings."""
        with self._encoder_lock:
            if self._encoder is None:
                from index.encoders import load_encoder
                from server.registry import resolve

                self._encoder = load_encoder(resolve(self._settings.index.encoder, self._settings.home))
            return self._encoder

    def background_encoder(self) -> Encoder:
        """Return the embedding model for work that searches must not wait for: it leaves them a processor."""
        from index.encoders import OnnxEncoder, load_encoder
        from server.registry import resolve

        if not isinstance(shared := self.encoder(), OnnxEncoder):
            return shared
        folder = resolve(self._settings.index.encoder, self._settings.home)
        return load_encoder(folder, max(1, (os.cpu_count() or 1) - 1))

    @property
    def reranker_at_hand(self) -> bool:
        """Whether `reranker` would return at once."""
        return self._reranker is not None or self._settings.retrieval.rerank == "never"

    def reranker(self) -> Reranker | None:
        """The cross-encoder, None where the settings want none."""
        if self._settings.retrieval.rerank == "never":
            return None
        with self._reranker_lock:
            if self._reranker is None:
                from server.rewriters import open_reranker

                self._reranker = open_reranker(self._settings)
            return self._reranker


class EngineManager:
    """Starts the engine of the settings once; after a failure the next one who needs it tries again."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.pace = WritingPace()
        self._starting: asyncio.Task[Engine] | None = None
        self._warming: asyncio.Task[None] | None = None

    def begin(self) -> asyncio.Task[Engine]:
        """Start in the background, unless that was done already and has not failed."""
        task = self._starting
        if task is None or (task.done() and self.running is None):
            # In a context of its own: it outlives the turn that it begins in.
            task = self._starting = asyncio.create_task(self._start(), name="engine", context=Context())
        return task

    async def _start(self) -> Engine:
        from server.engines import open_engine

        def start() -> Engine:
            engine = open_engine(self.settings)
            engine.start()
            return engine

        engine = await asyncio.to_thread(start)
        self._warming = asyncio.create_task(self._warm(engine), name="engine-warming")
        return engine

    async def _warm(self, engine: Engine) -> None:
        """Have a model that runs here read the instructions, which it then keeps for the first question."""
        from langchain_core.messages import HumanMessage, SystemMessage

        from server.turn.models import instructions

        llm = self.settings.llm
        model = limited(engine.chat_model(), 1, 1)
        if model is None or llm.remote:
            return
        read = instructions(_style(engine, self)).text
        try:
            await model.ainvoke([SystemMessage(read), HumanMessage("")])
        except Exception as error:  # noqa: BLE001  (whatever a client raises: nothing was lost but a head start)
            log.info("the language model did not read ahead: %s: %s", type(error).__name__, error)

    async def engine(self) -> Engine:
        """The running engine. Raises Unavailable when it cannot be started."""
        from server.engines import EngineError
        from server.registry import RegistryError

        try:
            # Shielded: a reader who leaves must not stop the model for the others.
            return await asyncio.shield(self.begin())
        except (EngineError, RegistryError, OSError) as error:
            log.warning("the language model could not be started: %s", error)
            raise Unavailable(str(error), code="llm_unreachable") from error

    @property
    def running(self) -> Engine | None:
        """The engine if it has started."""
        task = self._tried
        return task.result() if task and task.exception() is None else None

    @property
    def problem(self) -> str:
        """Why the last start failed, empty if it did not."""
        error = self._tried.exception() if self._tried else None
        return str(error) if error is not None else ""

    @property
    def _tried(self) -> asyncio.Task[Engine] | None:
        """The start, once it has come to an end."""
        task = self._starting
        return task if task and task.done() and not task.cancelled() else None

    async def close(self) -> None:
        """Stop the engine, also one that is only starting."""
        if self._starting is None:
            return
        await asyncio.wait({self._starting})
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.wait({self._warming})
        if engine := self.running:
            await engine.aclose()
            await asyncio.to_thread(engine.stop)


class ServiceModels(Models):
    """All models of a running service; a `server.turn.run.ModelSource`.

    Another rewriter may be promoted, and the cross-encoder may be loaded at last, between two turns.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.keeper = EngineManager(settings)
        self.rewriters = RewriterManager(settings)
        self.reranker_problem = ""
        self._pairs_lock = threading.Lock()
        self._pairs: PairModel | None = None
        self._pairs_tried = False

    async def of_turn(
        self, answer_tokens: int | None = None, group: str = "", *, keeper: EngineManager | None = None
    ) -> TurnModels:
        """Everything a turn needs, with `keeper`'s language model instead of the usual one where it is given.

        Raises Unavailable where the language model cannot be started.
        """
        keeper = keeper or self.keeper
        engine = await keeper.engine()
        model, llm = salted(engine.chat_model(), group), keeper.settings.llm
        style = _style(engine, keeper)
        rewriter, reranker, pairs = await self._loaded(self._writer(keeper, model), pairs=model is not None)
        answering = limited(model, answer_tokens, llm.longest_answer(style))
        return TurnModels(rewriter, reranker, answering, engine.name, style, keeper.pace, pairs)

    async def of_search(self, group: str = "") -> TurnModels:
        """Return the models for a search; the language model is awaited only if it alone rewrites."""
        prompted = self._settings.rewriter.kind == "prompted"
        engine = await self.keeper.engine() if prompted else self.keeper.running
        model = salted(engine.chat_model(), group) if engine else None
        rewriter, reranker, _ = await self._loaded(self._writer(self.keeper, model), pairs=False)
        return TurnModels(rewriter, reranker)

    def _writer(self, keeper: EngineManager, model: BaseChatModel | None) -> BaseChatModel | None:
        """Return the language model if it rewrites: by the settings, or as a fast server beside a trained rewriter."""
        served = keeper.settings.llm.remote and writes_fast(keeper.settings.llm, keeper.pace)
        return model if served or self._settings.rewriter.kind == "prompted" else None

    async def _loaded(
        self, model: BaseChatModel | None, *, pairs: bool
    ) -> tuple[Rewriter, Reranker | None, PairModel | None]:
        def load() -> tuple[Rewriter, Reranker | None, PairModel | None]:
            return self.rewriters.rewriter(model), self.reranker_if_possible(), self.pairs() if pairs else None

        # No detour over a thread where there is nothing to load.
        at_hand = self.rewriters.is_loaded and self.reranker_at_hand and (self._pairs_tried or not pairs)
        return load() if at_hand else await asyncio.to_thread(load)

    def warm(self) -> None:
        """Load the rewriter, the cross-encoder, and what tells languages apart where that is asked for. Blocks."""
        analysis(self._settings.index.language, "")
        self.rewriters.rewriter()
        self.reranker_if_possible()
        if self._settings.llm.model != "none":
            self.pairs()

    def pairs(self) -> PairModel | None:
        """The model that reads statements beside evidence, opened once; None where it cannot be."""
        from server.rewriters import open_pairs

        with self._pairs_lock:
            if not self._pairs_tried:
                self._pairs, self._pairs_tried = open_pairs(self._settings), True
            return self._pairs

    def reranker_if_possible(self) -> Reranker | None:
        """The cross-encoder, or none where it cannot be loaded: a search without it is better than no search."""
        from server.registry import RegistryError

        try:
            reranker = self.reranker()
        except (IndexingError, RegistryError) as error:
            if not self.reranker_problem:
                log.warning("searching without the cross-encoder: %s", error)
            self.reranker_problem = str(error)
            return None
        self.reranker_problem = ""
        return reranker


class ChosenModels:
    """The models of turns that another language model answers, which the first of them starts."""

    def __init__(self, models: ServiceModels, settings: Settings) -> None:
        self._models = models
        self.keeper = EngineManager(settings)

    async def of_turn(self, answer_tokens: int | None = None, group: str = "") -> TurnModels:
        """As of the service, but for the language model."""
        return await self._models.of_turn(answer_tokens, group, keeper=self.keeper)

    async def of_search(self, group: str = "") -> TurnModels:
        """As of the service."""
        return await self._models.of_search(group)


def _style(engine: Engine, keeper: EngineManager) -> AnswerStyle:
    window = engine.window if isinstance(engine, RemoteEngine) else 0
    return answer_style(keeper.settings.llm, window, keeper.pace)


def limited(model: BaseChatModel | None, answer_tokens: int | None, longest: int) -> BaseChatModel | None:
    """`model` with a longest answer of `longest` tokens, or of fewer that are asked for, where it has such a limit."""
    if model is None or "max_tokens" not in type(model).model_fields:
        return model
    return model.model_copy(update={"max_tokens": max(1, min(answer_tokens or longest, longest))})


def salted(model: BaseChatModel | None, group: str) -> BaseChatModel | None:
    """`model` with a `cache_salt` of a group's own, where its server takes one: the prompts that a vLLM remembers are
    then compared with those of the group alone. The salt does not tell the group's name."""
    extra: object = getattr(model, "extra_body", None)
    if model is None or not isinstance(extra, dict) or not (salt := extra.get("cache_salt")):
        return model
    own = hmac.new(str(salt).encode(), group.encode(), hashlib.sha256).hexdigest()
    return model.model_copy(update={"extra_body": {**extra, "cache_salt": own}})


REFRESH_SECONDS = 1.0
"""How often, at most, a collection is asked whether another process has written a newer version."""
CHECK_SECONDS = 3600.0
"""How often the files of a collection that is in use are read and compared with their checksums."""
CHECK_BYTES = 32 << 20
"""How much of them is read a second, so that turns have the disk and the cache of files for themselves."""
TRY_AGAIN_SECONDS = 10.0
"""How long a collection without a sound version is not read again, since that reads all of it."""


class Collections:
    """The collections of one home folder."""

    def __init__(self, settings: Settings, models: Models) -> None:
        self._settings = settings
        self._models = models
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._open: dict[str, Collection] = {}
        self._checked: dict[str, float] = {}
        self._compared: dict[str, float] = {}
        self._comparing: dict[str, threading.Thread] = {}
        self._failed: dict[str, tuple[IndexingError, float]] = {}
        self.root = settings.home / "collections"

    def get(self, name: str) -> Collection:
        """The newest version of a collection, open. Raises CollectionNotFound or another IndexingError."""
        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            collection = self._open.get(name)
            if collection is None:
                collection = self._open[name] = self._opened(name)
            elif time.monotonic() - self._checked[name] > REFRESH_SECONDS:
                collection.refresh()
            now = self._checked[name] = time.monotonic()
            before = self._comparing.get(name)
            if now - self._compared.setdefault(name, now) > CHECK_SECONDS and not (before and before.is_alive()):
                self._compared[name] = now
                thread = threading.Thread(target=_compare, args=(collection,), name=f"check-{name}", daemon=True)
                self._comparing[name] = thread
                thread.start()
            return collection

    def _opened(self, name: str) -> Collection:
        from index.collection import Collection

        error, until = self._failed.get(name, (None, 0.0))
        if isinstance(error, CollectionCorrupt) and time.monotonic() < until:
            raise CollectionCorrupt(str(error))
        try:
            collection = Collection.open(self.root, name, self._models.encoder(), store=self._settings.index.vectors)
        except CollectionNotFound:
            self._failed.pop(name, None)
            raise
        except IndexingError as error:
            self._failed[name] = error, time.monotonic() + TRY_AGAIN_SECONDS
            raise
        self._failed.pop(name, None)
        return collection

    def changed(self, name: str) -> None:
        """Look for a newer version at the next use, however soon that is."""
        self._checked[name] = float("-inf")
        self._failed.pop(name, None)

    def is_open(self, name: str) -> bool:
        """Whether a collection is open already; never blocks."""
        return name in self._open

    def problem(self, name: str) -> str:
        """Why an older version of a collection serves, or it could not be opened; empty otherwise. Never blocks."""
        collection = self._open.get(name)
        if collection is not None:
            return collection.problem
        return str(self._failed[name][0]) if name in self._failed else ""

    def outdated(self, name: str) -> str:
        """List the settings that ask for indexing a collection again; it answers as before until then."""
        wanted = self._settings.index.language
        if name not in self._open or (language := self._open[name].language) == wanted:
            return ""
        return (
            f"The words of collection {name!r} were stemmed by `index.language` {language!r}, and the settings say "
            f"{wanted!r}: index it again."
        )

    def exists(self, name: str) -> bool:
        """Whether there is a collection of that name, without opening it."""
        return any(info.name == name for info in self.listing())

    def listing(self) -> list[CollectionSummary]:
        """Every collection, by name."""
        from index.collection import list_collections

        return [
            CollectionSummary(
                **asdict(replace(info, problem=self.problem(info.name) or info.problem)),
                answers=self._answers(info.name, bool(info.version)),
            )
            for info in sorted(list_collections(self.root), key=lambda info: info.name)
        ]

    def _answers(self, name: str, readable: bool) -> bool:
        collection = self._open.get(name)
        return collection.sound if collection is not None else readable and name not in self._failed

    def delete(self, name: str) -> None:
        """Forget a collection and remove whatever lies there of it. Raises CollectionNotFound where that is nothing."""
        from index.collection import delete_collection

        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            # Its files are closed with the last search that reads them.
            self._open.pop(name, None)
            self._checked.pop(name, None)
            self._compared.pop(name, None)
            self._failed.pop(name, None)
            delete_collection(self.root, name)

    def close(self) -> None:
        """Close every collection."""
        with self._lock:
            for collection in self._open.values():
                collection.close()
            self._open.clear()


def _compare(collection: Collection) -> None:
    from index.version import Pace

    try:
        collection.check(Pace(CHECK_BYTES))
    except IndexingError as error:
        log.warning("%s", error)


FAILED_SECONDS = 60.0
"""For so long a language model counts as broken after it has failed: then somebody has to ask it again."""
FAILED_ANSWERS = 2
"""So many in a row; one alone may be the question's fault."""


class AnswerWatch:
    """Whether the language model fails those who ask it: one that hangs still lists its models."""

    def __init__(self) -> None:
        self._failed = 0
        self._last = ""
        self._at = 0.0

    def note(self, ending: DoneEvent | ErrorEvent) -> None:
        """Remember how a turn ended."""
        if isinstance(ending, ErrorEvent) and ending.code.startswith("llm_"):
            self._failed, self._last, self._at = self._failed + 1, ending.message, time.monotonic()
        elif ending.type == "done" and ending.status == "answered":
            self._failed = 0

    @property
    def problem(self) -> str:
        """Return the problem; empty if there is none."""
        broken = self._failed >= FAILED_ANSWERS and time.monotonic() - self._at < FAILED_SECONDS
        return f"The last {self._failed} questions to the language model failed: {self._last}" if broken else ""
