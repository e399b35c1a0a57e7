"""Who may talk to the server and how much, and what a browser may do with what it says.

On loopback nobody needs a key until one is made; there the Host header must name this machine, so that a
web page elsewhere cannot reach the server by a name of its own (DNS rebinding). Everywhere else, and as soon as a
key exists, every request needs one. No page of another origin may change or read anything: it may only link here.
Request bodies are bounded, also those that do not say how long they are.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.api.errors import error_response

API_PREFIXES = ("/v1/", "/health", "/ready", "/metrics", "/openapi.json")

_COMMON = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}

API_POLICY = "default-src 'none'; frame-ancestors 'none'"

# Gradio builds functions from strings and writes its configuration into inline scripts; images and forms,
# which documents and models may smuggle in, go nowhere but here. Its page has a <base> of its own.
PAGE_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; media-src 'self' blob:; "
    "worker-src 'self' blob:; frame-src 'none'; object-src 'none'; base-uri 'self'; form-action 'none'; "
    "frame-ancestors 'none'"
)

LOGIN_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

_SAFE_METHODS = frozenset({"GET", "HEAD"})


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_api(path: str) -> bool:
    """Whether a path belongs to the API rather than to the page."""
    return path.startswith(API_PREFIXES)


class SecurityHeaders:
    """Adds the headers that tell a browser what not to do; a response may have its own instead."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        headers: Mapping[str, str] = {
            **_COMMON,
            "Content-Security-Policy": API_POLICY
            if is_api(path)
            else LOGIN_POLICY
            if path == "/login"
            else PAGE_POLICY,
        }
        if is_api(path):
            headers = {**headers, "Cache-Control": "no-store"}

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = MutableHeaders(scope=message)
                for name, value in headers.items():
                    own.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers)


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


PLAIN_BYTES = 8 << 20
"""Longest body that is no upload: it is held in memory."""

UPLOAD_OVERHEAD = 64 << 10
"""What a multipart form may add to the file it carries."""


class _TooLong(HTTPException):
    """Raised where a body is read: FastAPI lets an HTTPException of a middleware through."""


class BodyLimit:
    """Answers 413 to a body above the limit: before reading it where its length is told, else while reading."""

    def __init__(self, app: ASGIApp, upload_bytes: int) -> None:
        self._app = app
        self._upload_bytes = upload_bytes + UPLOAD_OVERHEAD
        self._plain_bytes = min(PLAIN_BYTES, self._upload_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        is_upload = headers.get("content-type", "").lower().startswith("multipart/")
        limit = self._upload_bytes if is_upload else self._plain_bytes
        message = f"The request body may have {limit >> 20} MiB at most."
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > limit:
            await error_response(413, message, headers={"Connection": "close"})(scope, receive, send)
            return
        read = 0

        async def counted() -> Message:
            nonlocal read
            part = await receive()
            if part["type"] == "http.request":
                read += len(part.get("body", b""))
                if read > limit:
                    raise _TooLong(413, message, {"Connection": "close"})
            return part

        try:
            await self._app(scope, counted, send)
        except _TooLong:
            # It was read by another middleware, where nobody turns exceptions into responses.
            await error_response(413, message, headers={"Connection": "close"})(scope, receive, send)
