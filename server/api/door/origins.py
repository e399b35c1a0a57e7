"""Under which names the server answers, and that no page of another origin uses it.

On loopback the Host header must name this machine, so that a web page elsewhere cannot reach the server by a name of
its own (DNS rebinding). No page of another origin may change or read anything: it may only link here.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from server.api.errors import error_response

_SAFE_METHODS = frozenset({"GET", "HEAD"})


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class OriginGuard:
    """Refuses requests that a web page of another origin made a browser send.

    `loopback_only` also demands that the Host header names this machine.
    """

    def __init__(self, app: ASGIApp, *, loopback_only: bool) -> None:
        self._app = app
        self._loopback_only = loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        problem = self._problem(Headers(scope=scope), scope.get("method", "GET"), scope["type"])
        if problem is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await error_response(403, problem, code="forbidden_origin")(scope, receive, send)

    def _problem(self, headers: Headers, method: str, kind: str) -> str | None:
        host = headers.get("host", "")
        if self._loopback_only and not is_loopback(_hostname(host)):
            return (
                "This server listens on loopback only and answers to localhost and 127.0.0.1. To reach it by another "
                "name, start it with --host and an API key."
            )
        origin = headers.get("origin")
        foreign = origin is not None and _place(origin) != host.lower()
        if headers.get("sec-fetch-site") == "cross-site":
            linked = method in _SAFE_METHODS and headers.get("sec-fetch-mode") == "navigate"
            foreign = foreign or kind != "http" or not linked
        return "A page of another origin may not use this server." if foreign else None


def _place(origin: str) -> str:
    """Host and port of an origin, empty for one that has none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
