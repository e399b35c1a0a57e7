"""Headers of a proxy before the server: principal, address, scheme and host of a request.

It is believed only from the addresses that the settings name. These headers are taken out in any case, so that nothing
behind this believes anybody else's.
"""

from __future__ import annotations

import ipaddress
import re

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from server.access.principals import NotAdmitted, Principal, person
from server.access.settings import ProxySettings

_TAKEN = (b"forwarded", b"x-real-ip", b"x-gradio-server")


_TAKEN_PREFIX = b"x-forwarded-"


class ProxyHeaders:
    """Puts the client's address, the scheme and the host of a request where they are looked for.

    Whom the proxy says it comes from is in the request's state as `forwarded`: a Principal, or the NotAdmitted that
    says why it is nobody.
    """

    def __init__(self, app: ASGIApp, settings: ProxySettings) -> None:
        self._app = app
        self._settings = settings
        self._taken = {*_TAKEN, *(header.lower().encode() for header in settings.headers)}
        self._networks = [ipaddress.ip_network(address) for address in settings.addresses]

        async def nothing(*_: object) -> None:
            """uvicorn's part changes the scope, and what it calls then has nothing to do."""

        # Of the addresses in X-Forwarded-For it takes the last that is no proxy's: those before it are only said.
        self._forwarded = ProxyHeadersMiddleware(nothing, list(settings.addresses))

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
                if self._settings.user_header:
                    self._sign_in(scope)
            scope["headers"] = [
                (name, value)
                for name, value in scope["headers"]
                if name not in self._taken and not name.startswith(_TAKEN_PREFIX)
            ]
        await self._app(scope, receive, send)

    def _sign_in(self, scope: Scope) -> None:
        rules = self._settings
        users = _values(scope, rules.user_header.lower().encode())
        if not any(users):
            return
        outcome: Principal | NotAdmitted
        try:
            if len(users) > 1:
                raise NotAdmitted(f"The proxy sent {rules.user_header} twice, and perhaps only one of them is its own.")
            groups = None
            if rules.groups_header:
                lists = _values(scope, rules.groups_header.lower().encode())
                groups = [group for listed in lists for group in re.split("[,|]", listed)]
            name = " ".join(_values(scope, rules.name_header.lower().encode())) if rules.name_header else ""
            outcome = person(f"proxy:{users[0]}", name or users[0], groups, rules)
        except NotAdmitted as refused:
            outcome = refused
        scope.setdefault("state", {})["forwarded"] = outcome


def client_address(scope: Scope) -> str:
    """The IP address a request comes from, empty where there is none."""
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
