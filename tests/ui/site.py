"""A whole Anaphora on a port of its own, in a thread: real service, real API, the page."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import uvicorn
from fastapi import FastAPI

import ui
from server.api.app import create_app
from server.chat import ChatService, open_service
from server.settings import LLMSettings, RetrievalSettings, ServerSettings, Settings

if TYPE_CHECKING:
    from playwright.sync_api import Page

T = TypeVar("T")

CURATED = ("How often should I descale it, <b>really</b>?",)
"""The operator's questions about `docs`."""


class Site:
    """The running server: its address, its service, and a way to ask the service something from a test."""

    def __init__(self, home: Path, documents: Path, model: str, profile: dict[str, object]) -> None:
        self.service: ChatService
        self._server: uvicorn.Server
        self._home, self._documents, self._model, self._profile = home, documents, model, profile
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._ready = threading.Event()
        self._leave = asyncio.Event()
        self._failure: BaseException | None = None
        self._socket = _listen()
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120)

    def cut(self) -> None:
        """Break all open connections, as a network does that goes away; a browser's `set_offline` leaves them."""

        async def broken() -> None:
            for connection in list(self._server.server_state.connections):
                if connection.transport is not None:
                    connection.transport.abort()

        self.ask(broken())

    def run(self) -> None:
        """Serve until `close`; in a thread of its own."""
        try:
            with self._runner:
                self._runner.run(self._serve())
        except BaseException as error:
            self._failure = error
            raise
        finally:
            self._ready.set()

    def wait(self, seconds: float) -> None:
        """Until the page can be opened, so long at most."""
        assert self._ready.wait(seconds)
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Ask the server to end."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._leave.set)

    async def _serve(self) -> None:
        llm = LLMSettings(model=self._model, choices={"Second": self._model})
        settings = Settings(
            home=self._home,
            llm=llm,
            retrieval=RetrievalSettings(rerank="never", profile=self._profile),
            server=ServerSettings(
                max_body_mb=2, share_days=3, questions={"docs": CURATED}, filters={"docs": ("version", "nothing")}
            ),
        )
        async with open_service(settings) as self.service:
            job = await self.service.collections.index_paths("docs", [self._documents])
            while not job.finished:
                await asyncio.sleep(0.05)
                job = await self.service.admin.job(job.id)
            assert job.state == "done", job
            app = create_app(self.service, settings)
            ui.mount(app, self.service)
            self._server = _server(app)
            serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
            self._ready.set()
            await self._leave.wait()
            self._server.should_exit = True
            await serving


_SETTLED = """Promise.allSettled(document.getAnimations()
  .filter((each) => each.effect.getComputedTiming().iterations !== Infinity)
  .map((each) => each.finished)).then(() => {})"""


def violations(page: Page) -> list[tuple[str, list[str]]]:
    """Return rule and nodes of what axe finds above minor, once nothing on the page moves or fades."""
    from axe_playwright_python.sync_playwright import Axe

    page.evaluate(_SETTLED)
    found = Axe().run(page).response["violations"]
    return [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found if one["impact"] != "minor"]


def _listen() -> socket.socket:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)  # a browser that comes before the server accepts is simply kept waiting
    return listener


def _server(app: FastAPI) -> uvicorn.Server:
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    return server


@contextmanager
def running_site(
    home: Path, documents: Path, model: str, patience: float = 150, profile: dict[str, object] | None = None
) -> Iterator[Site]:
    """A site over `documents` with the model at the URL `model`, ended when the context is left.

    `patience` is how long indexing may take, in seconds. `profile` holds numbers of the retrieval profile.
    """
    site = Site(home, documents, model, profile or {})
    thread = threading.Thread(target=site.run, daemon=True)
    thread.start()
    try:
        site.wait(patience)
        yield site
    finally:
        site.close()
        thread.join(120)
