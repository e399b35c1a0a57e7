"""A real server on a real port, over a small real collection and a language model that says what it is told."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from tests.eventually import eventually
from tests.openai_server import FakeOpenAIServer

if TYPE_CHECKING:
    import httpx
    from fastapi import FastAPI

    from server.chat import ChatService
    from server.settings import Settings

T = TypeVar("T")

DOCUMENTS = {
    "leave.md": """# Parental leave

## Length

Parental leave lasts ten weeks. It may be taken in two parts.

## Applying

Apply with form PL-7 at the personnel office. The form may also be sent by fax to the number 555-0199.
""",
    "travel.md": """# Travel expenses

## Refunds

Train tickets are refunded in full within thirty days. Taxi rides are refunded only after ten in the evening.
""",
    "security.md": """# Badges

## Lost badges

A lost badge must be reported within one hour. A new badge costs twenty euros and is not refundable.
""",
}


def stop_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no minute pass, however long a busy machine takes."""
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now)
    # A stopped clock falls behind, and counters would take it for one that was set back.
    monkeypatch.setattr("server.chat.limits._CLOCK_SECONDS", 600.0)


@pytest.fixture
def llm() -> Iterator[FakeOpenAIServer]:
    """A fake language model on a real port."""
    with FakeOpenAIServer() as llm:
        yield llm


@pytest.fixture(scope="session")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three small documents."""
    folder = tmp_path_factory.mktemp("documents") / "handbook"
    folder.mkdir()
    for name, text in DOCUMENTS.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def indexed_home(model_home: Path, documents: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose collection `docs` holds the documents; only to be copied."""
    from server.chat import open_service

    home = tmp_path_factory.mktemp("indexed")

    async def index() -> None:
        async with open_service(make_settings(home, model_home, "none"), warm=False) as service:
            job = await service.collections.index_paths("docs", [documents])
            while not job.finished:
                await asyncio.sleep(0.02)
                job = await service.admin.job(job.id)
            assert job.state == "done", job.message

    asyncio.run(index())
    return home


@pytest.fixture(scope="session")
def load_once(model_home: Path) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Wraps a loader so that fetched and packaged models, which no test changes, are loaded once."""
    from rewriter.load import packaged_folder

    kept = tuple(str(folder) for folder in (model_home.resolve(), packaged_folder()) if folder)
    loaded: dict[object, Any] = {}

    def once(load: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(reference: str | Path, *options: object) -> Any:
            path = str(Path(reference).resolve())
            if not path.startswith(kept):
                return load(reference, *options)
            key = (load.__name__, path, *options)
            if key not in loaded:
                loaded[key] = load(reference, *options)
            return loaded[key]

        return wrapped

    return once


@pytest.fixture
def shared_models(load_once: Callable[[Callable[..., Any]], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every server and command of this process has the same encoder and packaged rewriter: each takes 0.1 s to load."""
    _share_models(load_once, monkeypatch)


def _share_models(load_once: Callable[[Callable[..., Any]], Any], patch: pytest.MonkeyPatch) -> None:
    from index import encoders
    from rewriter import load
    from server import rewriters

    patch.setattr(encoders, "load_encoder", load_once(encoders.load_encoder))
    patch.setattr(rewriters, "load_rewriter", load_once(load.load_rewriter))


@pytest.fixture
def home(model_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared_models: None) -> Path:
    """An empty home for commands, with the fetched models."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "models").symlink_to(model_home / "models")
    monkeypatch.setenv("ANAPHORA_HOME", str(home))
    return home


@pytest.fixture
def command_home(
    indexed_home: Path, model_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared_models: None
) -> Path:
    """A home of the test's own for the command line: the collection `docs`, and the fetched models."""
    home = tmp_path / "home"
    shutil.copytree(indexed_home, home)
    (home / "models").symlink_to(model_home / "models")
    monkeypatch.setenv("ANAPHORA_HOME", str(home))
    return home


def make_settings(home: Path, model_home: Path, model: str, **groups: dict[str, object]) -> Settings:
    """Settings over `home` with the real encoder and no cross-encoder."""
    from server.settings import Settings

    models = model_home / "models"
    values: dict[str, Any] = {
        "index": {"encoder": str(models / "bge-small-en-v1.5")},
        "retrieval": {"rerank": "never"},
        "llm": {"model": model},
    }
    for group, changes in groups.items():
        values[group] = {**values.get(group, {}), **changes}
    return Settings(home=home, **values)


MakeSettings = Callable[..., "Settings"]


@pytest.fixture
def settings_for(indexed_home: Path, model_home: Path, tmp_path: Path, shared_models: None) -> MakeSettings:
    """Makes settings over a copy of the indexed home: `settings_for(model, server={...}, ...)`."""
    home = tmp_path / "home"
    shutil.copytree(indexed_home, home)

    def make(model: str = "none", **groups: dict[str, object]) -> Settings:
        return make_settings(home, model_home, model, **groups)

    return make


@dataclass
class Running:
    """A server in a thread of its own. `call` runs a coroutine function of the service there."""

    url: str
    service: ChatService
    app: FastAPI
    loop: asyncio.AbstractEventLoop
    stop: Callable[[], None]

    def call(self, coroutine: Any, seconds: float = 120.0) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(seconds)

    def key(self, role: str, *groups: str) -> str:
        """The secret of a new key."""
        return new_key(self.service, role, *groups)

    def client_as(self, role: str, *groups: str) -> httpx.Client:
        """A client with a new key."""
        return self.client(headers={"Authorization": f"Bearer {self.key(role, *groups)}"})

    def mount_page(self) -> Running:
        """The same server, with the page at `/`."""
        import ui

        async def mount() -> None:
            ui.mount(self.app, self.service)

        self.call(mount())
        return self

    def client(self, **options: Any) -> httpx.Client:
        import httpx

        # Loading certificates takes longer than most tests.
        return httpx.Client(base_url=self.url, timeout=90.0, verify=False, **options)

    def traced(self, turn_id: str) -> dict[str, Any]:
        """The trace of a turn, as `anaphora trace show --json` prints it."""
        kept: dict[str, Any] = self.call(self.service.turns.trace(turn_id)).model_dump(mode="json")
        return kept

    def upload(self, name: str, text: str) -> None:
        """Put a document into `docs`."""
        with self.client() as client:
            job = client.post("/v1/collections/docs/documents", files={"file": (name, text.encode())}).json()
        assert self.finished(job["id"]).state == "done"

    def index(self, collection: str, *paths: Path, **how: Any) -> None:
        """Index files and folders."""
        job = self.finished(self.call(self.service.collections.index_paths(collection, paths, **how)).id)
        assert job.state == "done", job.message

    def finished(self, job_id: str) -> Any:
        """The job once it has finished."""
        eventually(lambda: self.call(self.service.admin.job(job_id)).finished, seconds=120)
        return self.call(self.service.admin.job(job_id))


def new_key(service: ChatService, role: str, *groups: str) -> str:
    """The secret of a new key, of the group `default` where none is named."""
    from server.store import credentials

    make = partial(credentials.create_key, name=role, role=role, groups=frozenset(groups or ("default",)))
    return str(service.core.database.write_blocking(make)[1])


Serve = Callable[["Settings"], Running]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers; each is stopped at the end of the test."""
    running: list[Running] = []

    def start(settings: Settings) -> Running:
        started = start_server(settings)
        running.append(started)
        return started

    yield start
    for server in running:
        server.stop()


def start_server(settings: Settings) -> Running:
    from server.api.app import Server, address, create_app, listen
    from server.chat import open_service

    ready: threading.Event = threading.Event()
    made: dict[str, Any] = {}

    async def main() -> None:
        async with open_service(settings, warm=False) as service:
            app = create_app(service, settings)
            sock = listen(settings.server.model_copy(update={"port": 0}))
            server = Server(app, settings.server)
            made.update(url=address(sock), service=service, app=app, loop=asyncio.get_running_loop(), server=server)
            serving = asyncio.create_task(server.serve(sockets=[sock]))
            while not server.started and not serving.done():
                await asyncio.sleep(0.005)
            ready.set()
            await serving
            sock.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()), name="server")
    thread.start()
    if not ready.wait(120):
        raise AssertionError("the server does not start")

    def stop() -> None:
        made["server"].should_exit = True
        thread.join(120)
        assert not thread.is_alive()

    return Running(made["url"], made["service"], made["app"], made["loop"], stop)


@pytest.fixture(scope="module")
def shared_llm() -> Iterator[FakeOpenAIServer]:
    """The language model of the server that a file's tests share."""
    with FakeOpenAIServer() as llm:
        yield llm


def as_new(fake: T) -> T:
    """The same server with nothing told or heard."""
    fresh: Any = type(fake)()
    for one in fields(fresh):
        setattr(fake, one.name, getattr(fresh, one.name))
    return fake


@pytest.fixture(scope="module")
def shared(
    load_once: Callable[[Callable[..., Any]], Any],
    indexed_home: Path,
    model_home: Path,
    shared_llm: FakeOpenAIServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Running]:
    """One server for the tests of a file that change nothing which another of them reads."""
    home = tmp_path_factory.mktemp("shared") / "home"
    shutil.copytree(indexed_home, home)
    with pytest.MonkeyPatch.context() as patch:
        _share_models(load_once, patch)
        started = start_server(make_settings(home, model_home, shared_llm.url))
        yield started
        started.stop()


@pytest.fixture
def running(serve: Serve, settings_for: MakeSettings, llm: FakeOpenAIServer) -> Running:
    """A server with the fake language model and the collection `docs`."""
    return serve(settings_for(llm.url))
