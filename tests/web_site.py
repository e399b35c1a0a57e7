"""A web site on loopback, whose pages may change while it is read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from tests import http_server
from tests.http_server import FakeHandler, ServedFake

answer = FakeHandler.answer


def serving(handle: Callable[[FakeHandler], None], host: str = "127.0.0.1") -> AbstractContextManager[int]:
    """A server that lets `handle` answer every request; gives its port."""
    return http_server.serving(handler_of(handle), host)


def handler_of(handle: Callable[[FakeHandler], None]) -> type[FakeHandler]:
    class Handler(FakeHandler):
        def do_GET(self) -> None:
            handle(self)

        do_POST = do_GET

    return Handler


@dataclass
class Page:
    body: bytes = b""
    kind: str = "text/html"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class FakeSite(ServedFake):
    """`with FakeSite() as site:` serves `pages` by path at `site.url`; all of it may change meanwhile.

    Everything has an ETag, which conditional requests are answered by. `asked` keeps each path with its status.
    `status` refuses everything; the connection is cut for each path of `dies`.
    """

    pages: dict[str, Page] = field(default_factory=dict)
    asked: list[tuple[str, int]] = field(default_factory=list)
    agents: set[str] = field(default_factory=set)
    status: int = 0
    dies: set[str] = field(default_factory=set)

    def handler(self) -> type[FakeHandler]:
        return handler_of(self._answer)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def html(self, path: str, text: str, *links: str, head: str = "", **page: Any) -> None:
        anchors = "".join(f'<a href="{link}">link</a>' for link in links)
        body = f"<html><head>{head}</head><body><nav>{anchors}</nav><main>{text}</main></body></html>"
        self.pages[path] = Page(body.encode(), **page)

    def _answer(self, request: FakeHandler) -> None:
        self.agents.add(request.headers.get("User-Agent", ""))
        if request.path in self.dies:
            self.asked.append((request.path, 0))
            request.close_connection = True
            request.connection.close()
            return
        page = self.pages.get(request.path, Page(b"nothing here", status=404))
        etag = f'"{hashlib.sha256(page.body).hexdigest()[:16]}"'
        status = self.status or page.status
        if status == 200 and request.headers.get("If-None-Match") == etag:
            status = 304
        self.asked.append((request.path, status))
        headers = {"Content-Type": page.kind, "ETag": etag, **page.headers}
        answer(request, status, page.body if status != 304 else b"", headers)
