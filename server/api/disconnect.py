"""Stopping work for a client that has disconnected before there was an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request

T = TypeVar("T")

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
