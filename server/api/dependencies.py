"""FastAPI dependencies, shapes and server-sent events that the endpoints share.

An event stream is kept alive while nothing is said, and ended however its reader ends: `sse-starlette` watches for a
disconnect and the server stopping; `TurnStream` closes the turn then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Annotated, Any, Generic, TypeVar, cast

from fastapi import Depends, FastAPI, Path, Query, Request
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from index.documents import Where
from server.access import Principal
from server.chat import ChatService, InvalidRequest
from server.chat.running_turn import RunningTurn
from server.chat.service import ServiceCore
from text.files import NAME_CHARS, NAME_PATTERN


async def _service(request: Request) -> ChatService:
    """The service as whoever sent the request may use it: the only one there is for a route."""
    # A plain function would be called in a thread, for every request.
    return cast("ChatService", request.app.state.service).as_principal(request.scope["state"]["principal"])


Service = Annotated[ChatService, Depends(_service)]
S = TypeVar("S")


def service_of(make: Callable[[ServiceCore, Principal], S]) -> Any:
    """Return the dependency of a route on a plugin's own service, as whoever sent the request may use it.

    Example:
        >>> Notes = Annotated[NoteService, service_of(NoteService)]  # doctest: +SKIP
    """

    async def own(service: Service) -> S:
        return make(service.core, service.principal)

    return Depends(own)


CollectionName = Annotated[
    str, Path(description="The collection's name.", examples=["docs"], pattern=NAME_PATTERN, max_length=NAME_CHARS)
]
CollectionFilter = Annotated[
    str, Query(description="Only what is about this collection.", pattern=rf"^$|{NAME_PATTERN}", max_length=NAME_CHARS)
]


async def _narrowed(
    where: Annotated[str, Query(max_length=2000, description='A filter as JSON: `{"version": "2"}`.')] = "",
) -> Where:
    try:
        return _WHERE.validate_json(where or "{}")
    except ValidationError as error:
        raise InvalidRequest('The filter is no JSON: write it as {"version": "2"}.', param="where") from error


_WHERE: TypeAdapter[Where] = TypeAdapter(Where)
Narrowed = Annotated[Where, Depends(_narrowed)]
ConversationId = Annotated[str, Path(description="The conversation's id.")]


def number(value: object) -> object:
    """Return a value of JSON that must be a number: neither `true` nor a text, which pydantic would convert.

    For `field_validator("name", mode="before")`. Raises ValueError.
    """
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise ValueError("it must be a number")


class StrictBody(BaseModel):
    """A request body that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid")


T = TypeVar("T")


class Listing(BaseModel, Generic[T]):
    """Rows in the order that the operation names."""

    data: list[T]


def show_as_pages(app: FastAPI, page: Callable[[Scope, int, str, Mapping[str, str]], Response]) -> None:
    """Answer errors of addresses that a browser opens by what `page` makes of them, as `ui.routes.error_page` does."""
    app.state.error_page = page


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
