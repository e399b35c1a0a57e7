"""A real HTTP server on a free port of this machine, for stand-ins of what is spoken to over the network."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class FakeHandler(BaseHTTPRequestHandler):
    """Keeps quiet, and answers with whole bodies."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        """Be quiet."""

    def answer(self, status: int, body: bytes | dict[str, Any] = b"", headers: Mapping[str, str] | None = None) -> None:
        """Send these bytes, or this as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = {} if isinstance(body, bytes) else {"Content-Type": "application/json"}
        self.send_response(status)
        for name, value in {**kind, **(headers or {}), "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients come and go; anything else is told."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], host: str = "127.0.0.1") -> Iterator[int]:
    """Let this handler answer until the end of the block; gives the port."""
    server = _QuietServer((host, 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class ServedFake:
    """A fake that serves at `port` while its context is open."""

    port = 0

    def handler(self) -> type[BaseHTTPRequestHandler]:
        """The request handler."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._serving = serving(self.handler())
        self.port = self._serving.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._serving.__exit__(None, None, None)
