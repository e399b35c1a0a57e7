"""Connections to checked addresses alone, whatever a name means a moment later, and in limited time.

A name is resolved once for a connection, every address it has is checked, and the connection goes to one that was
checked (against DNS rebinding). Proxies of the environment are not used: they would resolve the name anew. A request
has its time as a whole, for a server can send single bytes for days.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import httpcore
import httpx

from server.guard import AddressGuard


class _TimedStream(httpcore.NetworkStream):
    """A connection on which no wait is longer than `left` makes of it."""

    def __init__(self, stream: httpcore.NetworkStream, left: Callable[[float | None], float]) -> None:
        self._stream = stream
        self._left = left
        self.close = stream.close  # type: ignore[method-assign]
        self.get_extra_info = stream.get_extra_info  # type: ignore[method-assign]

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._left(timeout))

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _TimedStream(self._stream.start_tls(ssl_context, server_hostname, self._left(timeout)), self._left)


class GuardedBackend(httpcore.SyncBackend):
    """Connects to checked addresses alone; what is asked there must be over by `until`."""

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard
        self.until = math.inf

    def connect_tcp(self, host: str, port: int, *more: Any, **options: Any) -> httpcore.NetworkStream:
        *others, last = self._guard.addresses(host, port)
        for address in others:
            try:
                return _TimedStream(super().connect_tcp(address, port, *more, **options), self._left)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return _TimedStream(super().connect_tcp(last, port, *more, **options), self._left)

    def _left(self, seconds: float | None) -> float:
        left = self.until - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout("it takes too long")
        return min(left, math.inf if seconds is None else seconds)


def guarded_transport(guard: AddressGuard) -> tuple[httpx.HTTPTransport, GuardedBackend]:
    """Return a transport whose connections `guard` allows, and its backend, which takes the time of a request."""
    transport = httpx.HTTPTransport(verify=False, trust_env=False)
    transport.close()
    # This one checks certificates, which it loads with the first connection that needs them.
    backend = GuardedBackend(guard)
    transport._pool = httpcore.ConnectionPool(max_connections=4, network_backend=backend)
    return transport, backend
