"""Middleware of every request: a proxy's headers, names and origins, lengths, headers for browsers, language, counts.

The Host header must name this machine or a trusted host, so that a web page elsewhere cannot reach the server by a name
of its own (DNS rebinding); only a server for others, to which no trusted hosts were told, answers to any name. No page
of another origin may change or read anything: it may only link here.
"""

from __future__ import annotations

import ipaddress
import json
import logging
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from urllib.parse import urlsplit

from opentelemetry import context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from server.api.dependencies import error_response, is_api
from server.plugins import paths
from server.settings import is_loopback
from server.tracing import Metrics
from text.languages import speak, wanted

log = logging.getLogger(__name__)


class HttpMiddleware:
    """ASGI middleware of HTTP requests, which `handle` gets; whatever else is asked for goes past it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self.handle if scope["type"] == "http" else self._app)(scope, receive, send)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, usually by a call of the application within."""
        raise NotImplementedError


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


_SAFE_METHODS = frozenset({"GET", "HEAD"})
_PORTS = {"http": ":80", "https": ":443"}


class OriginMiddleware:
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
        safe = scope.get("method") in _SAFE_METHODS
        if scope["path"] in paths("shared_paths") and safe:
            return None  # with an `integrity` attribute a browser says which page loads it
        origin = headers.get("origin")
        scheme = str(scope["scheme"]).replace("ws", "http")
        foreign = origin is not None and origin.lower() != f"{scheme}://{host.lower().removesuffix(_PORTS[scheme])}"
        if headers.get("sec-fetch-site") == "cross-site":
            linked = safe and headers.get("sec-fetch-mode") == "navigate"
            foreign = foreign or scope["type"] != "http" or not linked
        if not foreign:
            return None
        return (
            "A page of another origin may not use this server. If a proxy with TLS stands before it, server.proxies "
            "must name the proxy's address, and the proxy must send X-Forwarded-Proto."
        )


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


class BodySizeMiddleware(HttpMiddleware):
    """Answers 413 to a body above the limit: before reading it where its length is told, else while reading."""

    def __init__(self, app: ASGIApp, upload_bytes: int) -> None:
        super().__init__(app)
        self._upload_bytes = upload_bytes + UPLOAD_OVERHEAD
        self._plain_bytes = min(PLAIN_BYTES, self._upload_bytes)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
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


_COMMON = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}

_AGAINST_FRAMES = ("X-Frame-Options", "Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy")

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


class SecurityHeaders(HttpMiddleware):
    """Adds the headers that tell a browser what not to do; a response may have its own instead."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _of(scope["path"])

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = MutableHeaders(scope=message)
                for name, value in headers.items():
                    own.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers)


def _of(path: str) -> dict[str, str]:
    if is_api(path):
        return {**_COMMON, "Content-Security-Policy": API_POLICY, "Cache-Control": "no-store"}
    if path.startswith("/login"):
        # Without a referrer a browser says of a form that its origin is "null", which is nobody's.
        return {**_COMMON, "Content-Security-Policy": LOGIN_POLICY, "Referrer-Policy": "same-origin"}
    if path in paths("framed_paths"):
        # Shown in frames of the sites that its own policy names.
        return {name: value for name, value in _COMMON.items() if name not in _AGAINST_FRAMES}
    return {**_COMMON, "Content-Security-Policy": PAGE_POLICY}


ENGLISH_PAGES = ("/workbench", "/traces")


class RequestLanguage(HttpMiddleware):
    """Lets everything be said in the language that the request asks for."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not scope["path"].startswith(ENGLISH_PAGES):
            connection = HTTPConnection(scope)
            speak(wanted(connection.cookies, connection.headers.get("accept-language")))
        await self._app(scope, receive, send)


TRACED = "/v1/"
"""Below it a request may belong to a caller's trace; health checks and the page's files do not."""


class RequestWatch(HttpMiddleware):
    """Counts requests by route and status, and makes a caller's trace the current one.

    A route is its pattern, so that no text from outside is a label.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        super().__init__(app)
        self._metrics = metrics
        self._propagator = TraceContextTextMapPropagator()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        caller = Headers(scope=scope) if scope["path"].startswith(TRACED) else {}
        token = context.attach(self._propagator.extract(caller, context.Context()))
        try:
            await self._app(scope, receive, watched)
        finally:
            context.detach(token)
            self._metrics.requests.labels(getattr(scope.get("route"), "path", "") or "other", str(status)).inc()


_KEPT = ("allow", "connection", "retry-after", "www-authenticate")
_FAILED = "The page's server failed to do this; its log says why."


def _is_navigation(scope: Scope) -> bool:
    """Whether a browser asks for something to show, rather than a script or a program for something to read."""
    return not is_api(scope["path"]) and "text/html" in Headers(scope=scope).get("accept", "")


class MountedErrors(HttpMiddleware):
    """Replaces the body of every answer from 400 on that no endpoint of the API gave, unknown paths of it included.

    Where a browser navigates, it is the page that `app.state.error_page` makes of it (`ui.routes`), if there is one.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        failed: Message | None = None
        body = b""
        answered = False

        async def shaped(message: Message) -> None:
            nonlocal failed, body, answered
            if message["type"] == "http.response.start" and message["status"] >= HTTPStatus.BAD_REQUEST:
                # What an endpoint says has the shape already; what falls through to the page's server has not.
                kind = Headers(raw=message["headers"]).get("content-type", "")
                shaped_here = is_api(scope["path"]) and kind.startswith(("application/json", "text/event-stream"))
                if shaped_here or (_is_navigation(scope) and kind.startswith("text/html")):
                    await send(message)
                else:
                    failed = message
            elif failed is None:
                await send(message)
            else:
                body += message.get("body", b"")
                if not message.get("more_body"):
                    headers = Headers(raw=failed["headers"])
                    remaining = {name: headers[name] for name in _KEPT if name in headers}
                    detail = _message(failed["status"], body)
                    error_page = getattr(scope["app"].state, "error_page", None)
                    if error_page and _is_navigation(scope):
                        response: Response = error_page(scope, failed["status"], detail, remaining)
                    else:
                        response = error_response(failed["status"], detail, headers=remaining)
                    await response(scope, receive, send)
                    answered = True

        try:
            await self._app(scope, receive, shaped)
        except Exception:  # of a route; cancelling is none
            # Raised again after it was answered, it would cost the connection.
            if not answered:
                raise
            log.exception("%s %s failed", scope["method"], scope["path"])


def _message(status: int, body: bytes) -> str:
    """Return the message of the body; nothing for a server error, whose body may be anything."""
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return _FAILED
    try:
        content = json.loads(body)
    except ValueError:
        content = None
    content = content.get("detail") or content.get("error") if isinstance(content, dict) else None
    content = content.get("message") if isinstance(content, dict) else content
    return content[:500] if isinstance(content, str) and content else f"{HTTPStatus(status).phrase}."
