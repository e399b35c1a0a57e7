"""`/mcp`: the tools for agents as streamable HTTP, on the same port and behind the same door.

No state is kept between requests, so that any server behind a balancer answers any of them. The SDK takes a second to
load, which the first request pays.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.types import Receive, Scope, Send

from server.chat import ChatService

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

PATH = "/mcp"


class McpEndpoint:
    """The ASGI application at `PATH`; `close` ends what its requests have begun."""

    def __init__(self, service: ChatService) -> None:
        self._service = service
        self._starting: asyncio.Future[StreamableHTTPSessionManager] | None = None
        self._running: asyncio.Task[None] | None = None
        self._over = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_future()
            self._running = asyncio.create_task(self._run(self._starting), name="mcp")
        manager = await asyncio.shield(self._starting)
        await manager.handle_request(scope, receive, send)

    async def close(self) -> None:
        """End the requests under way."""
        self._over.set()
        if self._running is not None:
            await asyncio.wait({self._running})

    async def _run(self, started: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        """Hold what the manager needs open, in one task, until `close`."""
        try:
            manager = await asyncio.to_thread(self._made)
        except ImportError as error:  # an installation that was not brought up to date; nobody waits for ever
            started.set_exception(error)
            return
        async with manager.run():
            started.set_result(manager)
            await self._over.wait()

    def _made(self) -> StreamableHTTPSessionManager:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from server.mcp_tools import make_server

        return StreamableHTTPSessionManager(make_server(self._acting), stateless=True)

    def _acting(self, context: Any) -> ChatService:
        # A request that came without one would be a mistake of ours, and fails.
        return self._service.as_principal(context.request.scope["state"]["principal"])
