"""HTTP over the local engine's socket, waiting while the engine comes back from a restart.

A request that a dying worker took and gave no answer to goes to the next worker, once: nothing of an answer was
shown, and a request that kills the engine must not kill it again and again.

Connections are not kept: one costs less than a millisecond here, and one that is kept would belong to the
event loop that opened it.
"""

from __future__ import annotations

import asyncio
import time

import httpx

from server.engines.base import EngineFailed
from server.engines.supervisor import Supervisor

_LIMITS = httpx.Limits(max_keepalive_connections=0)
_POLL_SECONDS = 0.05
_DYING_SECONDS = 2.0
"""A killed process can take that long to be gone; it may hold gigabytes."""
_CUT_OFF = (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)


class SocketTransport(httpx.HTTPTransport):
    """For `httpx.Client`: blocks for at most `seconds` until the engine takes the request."""

    def __init__(self, socket: str, supervisor: Supervisor, seconds: float) -> None:
        super().__init__(uds=socket, limits=_LIMITS)
        self._supervisor = supervisor
        self._seconds = seconds

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        deadline = time.monotonic() + self._seconds
        again = False
        while True:
            try:
                self._supervisor.wait_ready(max(0.0, deadline - time.monotonic()))
                worker = self._supervisor.pid
                return super().handle_request(request)
            except EngineFailed as error:
                raise httpx.ConnectError(str(error), request=request) from error
            except httpx.ConnectError:
                # It has just died, which its supervisor is about to notice.
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_SECONDS)
            except _CUT_OFF:
                until = min(deadline, time.monotonic() + _DYING_SECONDS)
                while self._supervisor.pid == worker and time.monotonic() < until:
                    time.sleep(_POLL_SECONDS)
                if again or self._supervisor.pid == worker:
                    raise
                again = True


class AsyncSocketTransport(httpx.AsyncHTTPTransport):
    """For `httpx.AsyncClient`: waits for at most `seconds` until the engine takes the request."""

    def __init__(self, socket: str, supervisor: Supervisor, seconds: float) -> None:
        super().__init__(uds=socket, limits=_LIMITS)
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
