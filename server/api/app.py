"""Put the API together (routers, errors, bounds, keys, headers, counts and traces of requests), and listen.

Listening is the key it needs, the socket, uvicorn, and an end that streams survive to say so.
"""

from __future__ import annotations

import errno
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from importlib.metadata import version
from typing import Any

import uvicorn
from fastapi import APIRouter, FastAPI
from starlette.middleware import Middleware
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from server.api import conversations, documents, openai, operations
from server.api.dependencies import ERRORS, install_errors
from server.api.middleware import MountedErrors, RequestLanguage, RequestWatch
from server.api.security import RequestLimit, door
from server.chat import ChatService
from server.plugins import installed_plugins, parts
from server.settings import ServerSettings, Settings
from server.store import Database, credentials

_DESCRIPTION = """Chat over your own documentation, with follow-up questions that work.

`/v1/chat/completions` speaks OpenAI's protocol: a collection is a model. Everything else is what the page
uses. Errors have OpenAI's shape. A server that listens on more than loopback wants `Authorization: Bearer KEY`.
"""


ROUTERS = (
    *(openai.router, conversations.search_router, conversations.router, conversations.feedback_router),
    *(operations.reviews_router, documents.router, documents.jobs_router, operations.runs_router),
)
"""In the order in which the description lists them; those of plugins and `operations` follow."""


def create_app(service: ChatService, settings: Settings) -> FastAPI:
    """The application over a running service. The page is mounted by whoever wants one."""
    core = service.core
    app = _api(
        with_keys=settings.needs_sign_in,
        middleware=[
            Middleware(RequestLanguage),
            Middleware(RequestWatch, metrics=core.metrics),
            *door(settings, core.database),
            Middleware(RequestLimit, limits=core.limits),
            Middleware(MountedErrors),
        ],
    )
    app.state.service = service
    return app


def description() -> dict[str, Any]:
    """The API's description (OpenAPI), as a server that wants keys has it."""
    return _api(with_keys=True).openapi()


def _api(*, with_keys: bool, **more: Any) -> FastAPI:
    """The API's routes with their description; `more` goes to FastAPI."""
    app = _Api(
        title="Anaphora",
        summary="Conversational search over documentation.",
        description=_DESCRIPTION,
        version=version("anaphora"),
        # Their pages load scripts from elsewhere; the description itself is at /openapi.json.
        docs_url=None,
        redoc_url=None,
        **more,
    )
    install_errors(app)
    app.router.routes += _routes(tuple(installed_plugins()))
    app.with_keys = with_keys
    return app


@cache
def _routes(plugins: tuple[str, ...]) -> list[BaseRoute]:
    """Return the API's routes with those of `plugins`, the installed ones. Reading their signatures takes long."""
    every = APIRouter()
    for router in (*ROUTERS, *parts("routers")):
        every.include_router(router, responses=ERRORS)
    every.include_router(operations.router)
    return every.routes


class _Api(FastAPI):
    """An application whose description says where a key is needed; `with_keys`: whether one ever is."""

    with_keys: bool

    def openapi(self) -> dict[str, Any]:
        schema = super().openapi()
        if self.with_keys:
            schemes = schema.setdefault("components", {}).setdefault("securitySchemes", {})
            schemes["key"] = {"type": "http", "scheme": "bearer"}
            for path, methods in schema["paths"].items():
                for operation in methods.values():
                    operation["security"] = [] if path in ("/health", "/ready") else [{"key": []}]
        return schema


SHUTDOWN_SECONDS = 5
"""How long requests under way may take to end once the server stops."""

BACKLOG = 1024

CONNECTIONS = 500
"""Connections at once; one more gets 503."""


class AddressInUse(OSError):
    """Another program listens there already."""


class KeyNeeded(Exception):
    """The server would be reached by others, and nobody could come in."""


def demand_key(settings: Settings) -> None:
    """Refuse to serve others where there is neither a key nor a way to sign in. Raises KeyNeeded or StoreError."""
    if not settings.needs_sign_in or settings.signs_people_in:
        return
    with closing(Database(settings.database_at)) as database:
        if database.read_blocking(credentials.any_key):
            return
    why, remedy = f"{settings.server.host} can be reached from other machines", ", or listen on 127.0.0.1"
    if settings.server.on_loopback:
        why, remedy = "server.trusted_hosts or server.proxies lets others reach this server", ""
    raise KeyNeeded(
        f"{why}, and there is no API key yet. Make one with `anaphora keys create NAME`, or set up signing in "
        f"(plugins.sso){remedy}."
    )


def listen(settings: ServerSettings) -> socket.socket:
    """The listening socket. Raises AddressInUse, or OSError for an address that cannot be listened on."""
    try:
        family = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
        # asyncio sends small writes at once (TCP_NODELAY) only on sockets that name their protocol, and accepted
        # ones have it from here; without, a response on a kept connection waits 40 ms for the client's acknowledgement.
        return socket.socket(listener.family, listener.type, socket.IPPROTO_TCP, fileno=listener.detach())
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise AddressInUse(
                errno.EADDRINUSE,
                f"port {settings.port} of {settings.host} is taken. Stop the program that listens there, or choose "
                "another with --port",
            ) from error
        if error.errno == errno.EACCES:
            raise OSError(
                errno.EACCES, f"port {settings.port} may not be used by this user; choose one above 1023 with --port"
            ) from error
        raise OSError(error.errno, f"cannot listen on {settings.host}: {error.strerror}") from error


def address(sock: socket.socket) -> str:
    """Where a browser finds what listens on a socket."""
    host, port = sock.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """uvicorn that ends on Ctrl-C without raising it again: what surrounds it closes in its own time."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                limit_concurrency=CONNECTIONS,
                log_level="warning",
                access_log=False,
                server_header=False,
                # A proxy is believed by the settings (`door.proxy`), not by uvicorn's defaults.
                proxy_headers=False,
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
                lifespan="on",
            )
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let the first signal end the server and a second one hurry it."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {kind: signal.signal(kind, self.handle_exit) for kind in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)
