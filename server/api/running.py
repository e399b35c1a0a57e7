"""Listening: the key it needs, the socket, uvicorn, and an end that streams survive to say so."""

from __future__ import annotations

import errno
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from server.settings import ServerSettings, Settings
from server.store import Database, credentials

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
    database = Database(settings.database_at)
    try:
        if not database.read_blocking(credentials.any_key):
            why = (
                "server.trusted_hosts or server.proxies lets others reach this server"
                if settings.server.on_loopback
                else f"{settings.server.host} can be reached from other machines"
            )
            remedy = "" if settings.server.on_loopback else ", or listen on 127.0.0.1"
            raise KeyNeeded(
                f"{why}, and there is no API key yet. Make one with `anaphora keys create NAME`, or set up signing in "
                f"(plugins.sso){remedy}."
            )
    finally:
        database.close()


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
