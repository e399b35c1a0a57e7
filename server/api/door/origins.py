"""Under which names the server answers, and that no page of another origin uses it.

The Host header must name this machine or a trusted host, so that a web page elsewhere cannot reach the server by a name
of its own (DNS rebinding); only a server for others, to which no trusted hosts were told, answers to any name. No page
of another origin may change or read anything: it may only link here.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from server.access.settings import is_loopback
from server.api.errors import error_response

WIDGET_SCRIPT = "/widget.js"
"""What pages of other origins load: it holds nothing, and is not there unless the settings name some."""

_SAFE_METHODS = frozenset({"GET", "HEAD"})
_PORTS = {"http": ":80", "https": ":443"}


class OriginGuard:
    """Refuses requests to other names, and those that a web page of another origin made a browser send.

    `hosts` are the trusted ones, `*.` before what they end with; `any_host` answers to all where there are none.
    """

    def __init__(self, app: ASGIApp, *, hosts: Sequence[str], any_host: bool) -> None:
        self._app = app
        self._hosts = frozenset(hosts)
        self._suffixes = tuple(host.removeprefix("*") for host in hosts if host.startswith("*."))
        self._any = any_host and not hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        problem = self._problem(Headers(scope=scope), scope)
        if problem is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await error_response(403, problem, code="forbidden_origin")(scope, receive, send)

    def _problem(self, headers: Headers, scope: Scope) -> str | None:
        host = headers.get("host", "")
        name = _hostname(host)
        if not (self._any or is_loopback(name) or name in self._hosts or name.endswith(self._suffixes)):
            return (
                "This server does not answer to that name, only to localhost, 127.0.0.1 and what server.trusted_hosts "
                "lists. To reach it by the name, add it there."
            )
        origin = headers.get("origin")
        scheme = str(scope["scheme"]).replace("ws", "http")
        foreign = origin is not None and origin.lower() != f"{scheme}://{host.lower().removesuffix(_PORTS[scheme])}"
        if headers.get("sec-fetch-site") == "cross-site" and scope["path"] != WIDGET_SCRIPT:
            linked = scope.get("method") in _SAFE_METHODS and headers.get("sec-fetch-mode") == "navigate"
            foreign = foreign or scope["type"] != "http" or not linked
        if not foreign:
            return None
        return (
            "A page of another origin may not use this server. If a proxy with TLS stands before it, proxy.addresses "
            "must name the proxy's address, and the proxy must send X-Forwarded-Proto."
        )


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
