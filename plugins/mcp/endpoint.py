"""`POST /mcp`: the tools as streamable HTTP, on the server's port and behind the same checks.

No state is kept between requests, so that any server behind a balancer answers any of them. The SDK takes a second to
load, which the first request pays.
"""

from __future__ import annotations

import asyncio
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from server.chat import ChatService

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

router = APIRouter()


class McpEndpoint:
    """The ASGI application of the tools."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        manager = await asyncio.to_thread(_manager)
        async with manager.run():
            await manager.handle_request(scope, receive, send)


@cache
def _server() -> Any:
    from plugins.mcp.tools import make_server

    return make_server(_service_of)


def _manager() -> StreamableHTTPSessionManager:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    return StreamableHTTPSessionManager(_server(), stateless=True)


def _service_of(context: Any) -> ChatService:
    scope = context.request.scope
    service: ChatService = scope["app"].state.service
    # A request that came without a principal would be a mistake of ours, and fails.
    return service.as_principal(scope["state"]["principal"])


if find_spec("mcp"):
    router.routes.append(Route("/mcp", McpEndpoint(), methods=["POST"], include_in_schema=False))
