"""A chat service on loopback, as far as bots use it: calls of an API, and a WebSocket for what people do."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web


class FakeChatService:
    """Records the calls of a bot, and lets a test say what people do."""

    def __init__(self) -> None:
        self.calls: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()
        self.connected = asyncio.Event()
        self.ids = itertools.count(100)
        self.socket: web.WebSocketResponse

    async def call(self, end: str) -> dict[str, Any]:
        """Return what the next call brought, whose method or path must end so."""
        name, values = await asyncio.wait_for(self.calls.get(), 120)
        assert name.endswith(end), (name, values)
        return values

    def routes(self) -> Iterable[web.RouteDef]:
        """The API and the WebSocket."""
        raise NotImplementedError

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Serve; yield the address without its scheme."""
        app = web.Application()
        app.add_routes(self.routes())
        runner = web.AppRunner(app, shutdown_timeout=1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield f"127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()
