"""The local engine: a GGUF file served by llama.cpp in a process of its own.

The process listens on a Unix socket in a folder only this user may enter, so no port is open and no other user of the
machine can ask it anything. The socket's path outlives a restart of the process: a chat model made before works after,
and an asynchronous request made while the process comes back waits for it. One that a dying worker took and gave no
answer to goes to the next one, once: a request that kills the engine must not kill it again and again. Connections are
not kept: one costs less than a millisecond here, and would belong to the event loop that opened it.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from server.engines.base import ATRACED, TRACED, Engine, EngineFailed, EngineJob, openai_chat_model, request_timeout
from server.engines.supervisor import Supervisor
from server.processes import machine_cores
from server.registry import resolve
from server.settings import PARALLEL, Settings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


_LIMITS = httpx.Limits(max_keepalive_connections=0)
_POLL_SECONDS = 0.05
_DYING_SECONDS = 2.0
"""A killed process can take that long to be gone; it may hold gigabytes."""
_CUT_OFF = (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)


class SocketTransport(httpx.AsyncHTTPTransport):
    """Waits for at most `seconds` until the engine takes the request."""

    def __init__(self, socket: str, supervisor: Supervisor, seconds: float) -> None:
        super().__init__(verify=False, uds=socket, limits=_LIMITS)
        self._supervisor = supervisor
        self._seconds = seconds

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        deadline = time.monotonic() + self._seconds
        again = False
        while True:
            try:
                # The supervisor is a thread of no event loop, so it is asked again and again.
                while self._supervisor.status == "starting" and time.monotonic() < deadline:  # noqa: ASYNC110
                    await asyncio.sleep(_POLL_SECONDS)
                self._supervisor.check()
                worker = self._supervisor.pid
                return await super().handle_async_request(request)
            except EngineFailed as error:
                raise httpx.ConnectError(str(error), request=request) from error
            except httpx.ConnectError:
                # It has just died, which its supervisor is about to notice.
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(_POLL_SECONDS)
            except _CUT_OFF:
                until = min(deadline, time.monotonic() + _DYING_SECONDS)
                while self._supervisor.pid == worker and time.monotonic() < until:  # noqa: ASYNC110
                    await asyncio.sleep(_POLL_SECONDS)
                if again or self._supervisor.pid == worker:
                    raise
                again = True


LOAD_SECONDS = 300.0
"""Longest wait for a model to load; gigabytes from a slow disk take minutes."""

_HEALTH_SECONDS = 2.0


@dataclass(frozen=True)
class _Running:
    """State between `start` and `stop`."""

    folder: Path
    supervisor: Supervisor
    client: httpx.Client
    async_client: httpx.AsyncClient


class LocalEngine(Engine):
    """llama.cpp on this machine, for a registered name or a GGUF file."""

    def __init__(self, settings: Settings) -> None:
        self._llm = settings.llm
        self._home = settings.home
        self._lock = threading.Lock()
        self._running: _Running | None = None
        self._chat_model: BaseChatModel | None = None

    @property
    def name(self) -> str:
        return f"local:{Path(self._llm.model).name.removesuffix('.gguf')}"

    @property
    def pid(self) -> int | None:
        """The process id of the worker while there is one."""
        return self._running.supervisor.pid if self._running else None

    def start(self) -> None:
        """Load the model. Raises ModelNotFetched (for a registered name) or EngineFailed."""
        with self._lock:
            if self._running is None:
                self._running = self._prepare()
                self._chat_model = None
            supervisor = self._running.supervisor
        supervisor.start()
        try:
            self.chat_model()  # its library is imported while the model loads
            supervisor.wait_ready(LOAD_SECONDS)
        except EngineFailed:
            self.stop()
            raise

    def stop(self) -> None:
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            running.supervisor.stop()
            running.client.close()
            shutil.rmtree(running.folder, ignore_errors=True)

    async def aclose(self) -> None:
        if running := self._running:
            await running.async_client.aclose()

    def healthy(self) -> bool:
        running = self._running
        if running is None or running.supervisor.status != "ready":
            return False
        try:
            return running.client.get("http://engine/health", timeout=_HEALTH_SECONDS).is_success
        except httpx.HTTPError:
            return False

    def chat_model(self) -> BaseChatModel:
        """A model whose requests go through the socket. Raises EngineFailed before `start` and after `stop`.

        Requests are never retried: the pieces of an answer that were shown already would be shown again.
        """
        running = self._running
        if running is None:
            raise EngineFailed("The local engine is not started.")
        if self._chat_model is None:
            clients, model = (running.client, running.async_client), Path(self._llm.model).name
            self._chat_model = openai_chat_model(
                self._llm, "http://engine/v1", model, clients, retries=0, served_by="llamacpp"
            )
        return self._chat_model

    def _prepare(self) -> _Running:
        model = _model_file(self._llm.model, self._home)
        folder = Path(tempfile.mkdtemp(prefix="anaphora-engine-"))
        socket = str(folder / "engine.sock")
        job = EngineJob(
            model=str(model.absolute()),
            socket=socket,
            context_tokens=self._llm.context_tokens,
            parallel=PARALLEL,
            threads=self._llm.threads or machine_cores(),
        )
        supervisor = Supervisor(job, self._home / "logs" / "engine.log")
        timeout, wait = request_timeout(self._llm), self._llm.timeout_seconds
        # `trust_env`: no proxy of the environment stands between us and our own process.
        return _Running(
            folder,
            supervisor,
            httpx.Client(
                transport=httpx.HTTPTransport(uds=socket, limits=_LIMITS),
                timeout=timeout,
                trust_env=False,
                event_hooks=TRACED,
            ),
            httpx.AsyncClient(
                event_hooks=ATRACED,
                transport=SocketTransport(socket, supervisor, wait),
                timeout=timeout,
                trust_env=False,
            ),
        )


def _model_file(reference: str, home: Path) -> Path:
    if reference.endswith(".gguf") and not reference.startswith("hf:") and not Path(reference).expanduser().is_file():
        raise EngineFailed(f"There is no file {reference}; correct llm.model.")
    file = Path(resolve(reference, home))
    if not file.is_file():
        raise EngineFailed(
            f"llm.model is {reference!r}, which is no model of the registry (`anaphora models`), no GGUF file, "
            "no URL and not `none`."
        )
    return file
