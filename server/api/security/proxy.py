"""Headers of a proxy before the server: address, scheme and host of a request, and who the proxy says it comes from.

They are believed only from the addresses that the settings name, and taken out of every request, so that nothing behind
this believes anybody else's.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

_REMOVED = (b"forwarded", b"x-real-ip", b"x-gradio-server")
_REMOVED_PREFIX = b"x-forwarded-"


class ProxyHeaders:
    """Sets the client's address, the scheme and the host of a request from the headers of a trusted proxy.

    `identity_headers` name who signed in; their values, if a proxy of `addresses` sent them, are in the request's state
    as `identity`, by lower-case name.
    """

    def __init__(self, app: ASGIApp, addresses: Sequence[str], identity_headers: Iterable[str]) -> None:
        self._app = app
        self._identity = {header.lower().encode() for header in identity_headers}
        self._networks = [ipaddress.ip_network(address) for address in addresses]

        async def nothing(*_: object) -> None:
            """Do nothing: uvicorn's part only changes the scope."""

        # Of the addresses in X-Forwarded-For it takes the last that is no proxy's: anybody can write those before it.
        self._forwarded = ProxyHeadersMiddleware(nothing, list(addresses))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            proxy = client_address(scope)
            if proxy and any(ipaddress.ip_address(proxy) in network for network in self._networks):
                scope["client"] = (proxy, 0)
                await self._forwarded(scope, receive, send)  # type: ignore[arg-type]  # uvicorn has names of its own
                scope["client"] = (client_address(scope) or proxy, 0)
                if host := _values(scope, b"x-forwarded-host"):
                    headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
                    scope["headers"] = [*headers, (b"host", host[-1].rpartition(",")[2].strip().encode("latin-1"))]
                scope.setdefault("state", {})["identity"] = {
                    name.decode(): _values(scope, name) for name in self._identity
                }
            scope["headers"] = [
                (name, value)
                for name, value in scope["headers"]
                if not (name in _REMOVED or name in self._identity or name.startswith(_REMOVED_PREFIX))
            ]
        await self._app(scope, receive, send)


def client_address(scope: Scope) -> str:
    """Return the IP address a request comes from, empty where there is none."""
    host = (scope.get("client") or ("",))[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return ""
    # A socket for both versions shows version 4 as a part of version 6.
    return str(getattr(address, "ipv4_mapped", None) or address)


def _values(scope: Scope, name: bytes) -> list[str]:
    """Return the values of a header, in UTF-8 or, as HTTP once had it, Latin-1."""
    values = []
    for header, value in scope["headers"]:
        if header == name:
            try:
                values.append(value.decode("utf-8").strip())
            except UnicodeDecodeError:
                values.append(value.decode("latin-1").strip())
    return values
