"""A real server on a real port, over a small real collection and a language model that says what it is told."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import httpx
    from fastapi import FastAPI

    from server.chat import ChatService
    from server.settings import Settings

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


@dataclass
class FakeLLM:
    """An OpenAI-compatible server: streams `pieces` with `pace` seconds between them.

    `die_after` pieces it drops the connection. `left` is set when a client goes before the end.
    """

    url: str = ""
    pieces: list[str] = field(default_factory=lambda: ["Parental leave ", "lasts ten ", "weeks. [1]"])
    pace: float = 0.0
    silence: float = 0.0
    die_after: int | None = None
    status: int = 200
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    left: threading.Event = field(default_factory=threading.Event)
    streaming: threading.Event = field(default_factory=threading.Event)


def _handler(llm: FakeLLM) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Be quiet."""

        def do_GET(self) -> None:
            self._answer(200, {"object": "list", "data": [{"id": "fake", "object": "model"}]})

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            llm.requests.append(request)
            llm.headers.append({name.lower(): value for name, value in self.headers.items()})
            if llm.status != 200:
                self._answer(llm.status, {"error": {"message": "told to fail", "type": "server_error"}})
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                self._stream()
            except OSError:
                llm.left.set()
                self.close_connection = True

        def _stream(self) -> None:
            self._wait(llm.silence)
            for n, piece in enumerate(llm.pieces):
                if n == llm.die_after:
                    self.connection.shutdown(2)
                    self.close_connection = True
                    return
                self._event({"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]})
                llm.streaming.set()
                self._wait(llm.pace)
            self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            self._event({"choices": [], "usage": {"prompt_tokens": 50, "completion_tokens": 7, "total_tokens": 57}})
            self._chunk(b"data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")

        def _wait(self, seconds: float) -> None:
            """Sleep, noticing within 20 ms that the client has gone."""
            until = time.monotonic() + seconds
            while (left := until - time.monotonic()) > 0:
                self.connection.settimeout(min(left, 0.02))
                try:
                    if self.connection.recv(1) == b"":
                        raise ConnectionResetError
                except TimeoutError:
                    pass
                finally:
                    self.connection.settimeout(None)

        def _event(self, event: dict[str, object]) -> None:
            whole = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "fake", **event}
            self._chunk(b"data: " + json.dumps(whole).encode() + b"\n\n")

        def _chunk(self, data: bytes) -> None:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()

        def _answer(self, status: int, body: dict[str, object]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler


@pytest.fixture
def llm() -> Iterator[FakeLLM]:
    """A fake language model on a real port."""
    llm = FakeLLM()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(llm))
    server.daemon_threads = True
    llm.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield llm
    server.shutdown()
    thread.join()
    server.server_close()


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
            job = await service.index_paths("docs", [documents])
            while not job.finished:
                await asyncio.sleep(0.02)
                job = await service.job(job.id)
            assert job.state == "done", job.message

    asyncio.run(index())
    return home


@pytest.fixture
def command_home(indexed_home: Path, model_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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
        "index": {"encoder": str(models / "all-minilm-l6-v2")},
        "retrieval": {"rerank": "never"},
        "llm": {"model": model},
    }
    for group, changes in groups.items():
        values[group] = {**values.get(group, {}), **changes}
    return Settings(home=home, **values)


MakeSettings = Callable[..., "Settings"]


@pytest.fixture
def settings_for(indexed_home: Path, model_home: Path, tmp_path: Path) -> MakeSettings:
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

    def call(self, coroutine: Any, seconds: float = 30.0) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(seconds)

    def client(self, **options: Any) -> httpx.Client:
        import httpx

        # Loading certificates takes longer than most tests.
        return httpx.Client(base_url=self.url, timeout=30.0, verify=False, **options)

    def finished(self, job_id: str) -> Any:
        """The job once it has finished."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            job = self.call(self.service.job(job_id))
            if job.finished:
                return job
            time.sleep(0.02)
        raise AssertionError(f"job {job_id} does not finish")


Serve = Callable[["Settings"], Running]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers; each is stopped at the end of the test."""
    running: list[Running] = []

    def start(settings: Settings) -> Running:
        started = _start(settings)
        running.append(started)
        return started

    yield start
    for server in running:
        server.stop()


def _start(settings: Settings) -> Running:
    from server.api.app import create_app
    from server.api.running import Server, address, listen
    from server.chat import open_service

    ready: threading.Event = threading.Event()
    made: dict[str, Any] = {}

    async def main() -> None:
        async with open_service(settings, warm=False) as service:
            app = create_app(service, settings)
            sock = listen(settings.server.model_copy(update={"port": 0}))
            server = Server(app)
            made.update(url=address(sock), service=service, app=app, loop=asyncio.get_running_loop(), server=server)
            serving = asyncio.create_task(server.serve(sockets=[sock]))
            while not server.started and not serving.done():
                await asyncio.sleep(0.005)
            ready.set()
            await serving
            sock.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()), name="server")
    thread.start()
    if not ready.wait(30):
        raise AssertionError("the server does not start")

    def stop() -> None:
        made["server"].should_exit = True
        thread.join(30)
        assert not thread.is_alive()

    return Running(made["url"], made["service"], made["app"], made["loop"], stop)


@pytest.fixture
def running(serve: Serve, settings_for: MakeSettings, llm: FakeLLM) -> Running:
    """A server with the fake language model and the collection `docs`."""
    return serve(settings_for(llm.url))
