"""The door of the server, as ASGI middleware: what every request passes before a route sees it.

Each part knows one thing: what a proxy says, what a browser is told, which names and origins are answered, how long a
body may be, who sends a request and how often. Authorisation of a principal is decided in `server.access`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.middleware import Middleware

from server.api.security.authentication import AuthMiddleware, RequestLimit
from server.api.security.origins import (
    BodySizeMiddleware,
    OriginMiddleware,
    ProxyHeaders,
    SecurityHeaders,
    client_address,
)
from server.plugins import parts

if TYPE_CHECKING:
    from server.settings import Settings
    from server.store import Database

__all__ = ["AuthMiddleware", "RequestLimit", "client_address", "door"]


def door(settings: Settings, database: Database) -> list[Middleware]:
    """The parts of the door up to where the principal is known, the outermost first. Raises PluginError, MissingExtra.

    `database` keeps keys and sessions.
    """
    server = settings.server
    authenticators = [make(settings) for make in parts("authenticators")]
    identity_headers = {header for authenticator in authenticators for header in authenticator.identity_headers}
    return [
        Middleware(ProxyHeaders, addresses=server.proxies, identity_headers=identity_headers),
        Middleware(SecurityHeaders),
        Middleware(OriginMiddleware, hosts=server.trusted_hosts, any_host=not server.on_loopback),
        Middleware(BodySizeMiddleware, upload_bytes=server.max_body_mb << 20),
        Middleware(AuthMiddleware, database=database, always=settings.needs_sign_in, authenticators=authenticators),
    ]
