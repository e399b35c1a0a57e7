"""How long a connection may keep us waiting: for its headers, for its body, and for taking in its answer.

uvicorn bounds none of these, so that whoever sends half a request, or reads nothing of an answer, would hold a socket
(and a stream's place among the turns) for ever. What a request may contain is left to `server.api.door`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from server.api.errors import error_body, error_response
from server.settings import ServerSettings

BYTES_A_SECOND = 4096
"""A body is given one more second for so many bytes of it: a large upload over a slow line arrives."""

HEADER_BYTES = 64 << 10

SPARE_CONNECTIONS = 100
"""So many above the bound are told so; further ones are dropped, for each takes one of the files we may open."""

RETRY_SECONDS = 10


class BoundedConnection(HttpToolsProtocol):
    """A connection that is closed where its client keeps it waiting; `bounded` makes one with its limits."""

    limits: ServerSettings
    unfinished: dict[BoundedConnection, None]
    """The server's connections whose request has not arrived in whole, the oldest first."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._reading: asyncio.TimerHandle | None = None
        """Ends the wait for the rest of a request."""
        self._writing: asyncio.TimerHandle | None = None
        """Ends the wait for a client that takes in nothing."""
        self._received = 0
        """Bytes of headers that are not complete, then of the body."""
        self._in_body = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections + SPARE_CONNECTIONS:
            transport.abort()
        elif len(self.connections) > self.limits.connections and self.unfinished:
            # Half a request keeps nobody out.
            oldest = next(iter(self.unfinished))
            oldest._stop_waiting()
            oldest.transport.abort()
        self._expect(self.limits.header_seconds, self._headers_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # Line ends between two requests too, which begin none and end the wait of the keep-alive.
        if self._reading is None:
            self._expect(self.limits.header_seconds, self._headers_late)
        super().data_received(data)
        if self._reading is not None and not self._in_body:
            self._received += len(data)
            if self._received > HEADER_BYTES:
                self._refuse(431, f"The headers of a request may have {HEADER_BYTES >> 10} KiB at most.")

    def on_headers_complete(self) -> None:
        self._in_body = True
        began = self.loop.time()
        self._expect(self.limits.body_seconds, lambda: self._body_late(began))
        if len(self.connections) > self.limits.connections:
            self.app = _too_many
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._received += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._stop_waiting()
        self._in_body = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._let_go()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._let_go()

    def handle_websocket_upgrade(self) -> None:
        self._stop_waiting()
        super().handle_websocket_upgrade()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._writing = self.loop.call_later(self.limits.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
        super().resume_writing()

    def _expect(self, seconds: float, late: Callable[[], None]) -> None:
        self._stop_waiting()
        self._received = 0
        self._reading = self.loop.call_later(seconds, late)
        self.unfinished[self] = None

    def _stop_waiting(self) -> None:
        self.unfinished.pop(self, None)
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _headers_late(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            # A next request can wait for the answer to this one.
            self._reading = self.loop.call_later(self.limits.header_seconds, self._headers_late)
        elif self._received or self.cycle is not None:
            self._refuse(408, "The headers of the request did not arrive in time (server.header_seconds).")
        else:
            # A browser opens connections before it has anything to say, and takes an answer for one to what it says.
            self.transport.close()

    def _body_late(self, began: float) -> None:
        allowed = self.limits.body_seconds + self._received / BYTES_A_SECOND
        left = began + allowed - self.loop.time()
        if self.flow.read_paused:
            # It is us who do not read.
            left = max(left, self.limits.body_seconds)
        if left > 0:
            self._reading = self.loop.call_later(left, lambda: self._body_late(began))
        else:
            self._refuse(408, "The body of the request did not arrive in time (server.body_seconds).")

    def _refuse(self, status: int, message: str) -> None:
        """Close the connection, with an answer where none has begun."""
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            body = json.dumps(error_body(status, message)).encode()
            head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
            self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()
        self._let_go()

    def _let_go(self) -> None:
        """A closing connection is gone at last, also where its client takes in nothing of what is left."""
        if self.transport.get_write_buffer_size():
            self.loop.call_later(self.limits.write_seconds, self.transport.abort)


def bounded(limits: ServerSettings) -> type[BoundedConnection]:
    """The connections of a server with these settings."""
    return type("BoundedConnection", (BoundedConnection,), {"limits": limits, "unfinished": {}})


async def _too_many(scope: Scope, receive: Receive, send: Send) -> None:
    response = error_response(
        503,
        "The server has as many connections as it takes (server.connections). Try again soon.",
        code="too_many_connections",
        headers={"Retry-After": str(RETRY_SECONDS), "Connection": "close"},
    )
    await response(scope, receive, send)
