"""What a browser may do with what the server says."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

API_PREFIXES = ("/v1/", "/mcp", "/health", "/ready", "/metrics", "/openapi.json")

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
        headers: Mapping[str, str] = _of(path)

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
    if path == "/widget":
        # Shown in frames of the sites that its own policy names.
        return {name: value for name, value in _COMMON.items() if name not in _AGAINST_FRAMES}
    return {**_COMMON, "Content-Security-Policy": PAGE_POLICY}
