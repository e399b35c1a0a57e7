"""Server-sent events of a turn: keep-alives while nothing is said, and an end however the reader ends.

`sse-starlette` watches for a disconnect and the server stopping; this module closes the turn then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar, cast

from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from server.chat.running_turn import RunningTurn

T = TypeVar("T")

log = logging.getLogger(__name__)

CLIENT_CLOSED_REQUEST = 499
"""What proxies log for a reader who did not wait; nobody receives it."""


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled when the client disconnects. The request's body must have been read."""
    working = asyncio.create_task(work)
    disconnect = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({working, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise HTTPException(CLIENT_CLOSED_REQUEST, "The client disconnected.")
    finally:
        disconnect.cancel()
        working.cancel()
        await asyncio.gather(working, disconnect, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


PING_SECONDS = 10.0
"""Proxies and clients give up on a silent connection; a long prefill is silent."""

EVENTS: dict[str, Any] = {
    "schema": {
        "type": "object",
        "description": "One server-sent event.",
        "properties": {"event": {"type": "string"}, "data": {"type": "string", "description": "JSON."}},
        "required": ["data"],
    }
}
"""A stream in the API's description, which in OpenAPI 3.1 describes each event."""

SEND_SECONDS = 30.0
"""A reader who takes nothing for so long is gone, though the connection is there: its turn is in others' way."""

GRACE_SECONDS = 2.0
"""What a stream has to say its last word when the server stops."""


class TurnStream(EventSourceResponse):
    """A turn written as server-sent events. `body` is made from `turn` and yields finished bytes."""

    def __init__(self, turn: RunningTurn, body: AsyncIterator[bytes]) -> None:
        self._turn = turn
        self._stopping = asyncio.Event()
        super().__init__(
            body,
            headers={"X-Turn-Id": turn.id},
            ping=PING_SECONDS,
            send_timeout=SEND_SECONDS,
            ping_message_factory=lambda: ServerSentEvent(comment="still working", sep="\n"),
            sep="\n",
            shutdown_event=cast(Any, self._stopping),
            shutdown_grace_period=GRACE_SECONDS,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream, and close the turn in any case."""
        watching = asyncio.create_task(self._watch())
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            log.warning("the reader of turn %s takes nothing any more", self._turn.id)
        finally:
            watching.cancel()
            await self._turn.aclose()

    async def _watch(self) -> None:
        await self._stopping.wait()
        self._turn.stop("server_stopping", "The server is stopping. Ask again when it is back.")


def event_bytes(data: str, name: str = "") -> bytes:
    """One event; `data` is JSON without line breaks."""
    return (f"event: {name}\n" if name else "").encode() + b"data: " + data.encode() + b"\n\n"
