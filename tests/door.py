"""The door alone on a real port: behind it an application that says who came in, and how their request looks there."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import httpx
    from starlette.requests import Request
    from starlette.responses import Response

    from server.store import Database


@dataclass
class Door:
    """A server of which there is only the door. Its clients send `headers`."""

    url: str
    database: Database
    headers: dict[str, str] = field(default_factory=dict)

    def client(self, **options: Any) -> httpx.Client:
        import httpx

        # Loading certificates takes longer than most tests.
        headers = {**self.headers, **options.pop("headers", {})}
        return httpx.Client(base_url=self.url, timeout=90.0, verify=False, headers=headers, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        """The answer to somebody who keeps nothing."""
        with self.client(**options) as client:
            return client.get(path)

    def key(self, name: str = "x") -> str:
        """A new key."""
        from server.store import credentials

        return self.database.write_blocking(lambda connection: credentials.create_key(connection, name))[1]


OpenDoor = Callable[..., Door]


@pytest.fixture
def open_door(tmp_path: Path) -> Iterator[OpenDoor]:
    """Opens doors with these groups of settings: `open_door(server={...}, plugins={...})`."""
    with ExitStack() as doors:
        yield lambda **groups: doors.enter_context(opened(tmp_path / f"door{time.monotonic_ns()}", **groups))


@contextmanager
def opened(home: Path, **groups: Any) -> Iterator[Door]:
    """A door over a database in `home`."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    from server.api.app import Server, address, listen
    from server.api.security import door
    from server.settings import Settings
    from server.store import Database

    settings = Settings(home=home, **groups)
    database = Database(settings.database_at)
    routes = [Route("/{path:path}", _whoami, methods=["GET", "POST"])]
    app = Starlette(routes=routes, middleware=door(settings, database))
    # Where a test has the server listen for all, it does so on this machine all the same.
    sock = listen(settings.server.model_copy(update={"port": 0, "host": "127.0.0.1"}))
    server = Server(app, settings.server)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[sock])), name="door")
    thread.start()
    try:
        yield Door(address(sock), database)
    finally:
        server.should_exit = True
        thread.join(120)
        sock.close()
        database.close()


async def _whoami(request: Request) -> Response:
    from starlette.responses import JSONResponse, Response

    if request.url.path.startswith("/login"):
        return Response(status_code=404)
    principal = request.scope["state"]["principal"]
    who = {name: getattr(principal, name) for name in ("id", "name", "role", "origin")}
    seen = {"url": str(request.url), "headers": dict(request.headers)}
    return JSONResponse({**who, "groups": sorted(principal.groups), **seen})
