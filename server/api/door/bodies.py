"""How long a request's body may be, also one that does not say how long it is."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.api.errors import error_response

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
