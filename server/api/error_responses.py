"""Every error in OpenAI's shape, with a status by its kind: those of the API, and of the page's routes."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.chat import ChatError, Conflict, Forbidden, InvalidRequest, NotFound, Unavailable
from server.chat.base import TooLarge, TooManyRequests

log = logging.getLogger(__name__)

_STATUS: dict[type[ChatError], int] = {
    InvalidRequest: 400,
    Forbidden: 403,
    NotFound: 404,
    Conflict: 409,
    TooLarge: 413,
    TooManyRequests: 429,
    Unavailable: 503,
}

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "server_error",
}

_CODES = {401: "invalid_api_key", 404: "not_found", 405: "method_not_allowed", 413: "too_large"}


class ErrorDetail(BaseModel):
    """An error as JSON."""

    message: str = Field(description="One or two sentences for a person: what happened and what to do.")
    type: str = Field(description="The kind: invalid_request_error, authentication_error, server_error and so on.")
    param: str | None = Field(default=None, description="The field at fault, where there is one.")
    code: str | None = Field(default=None, description="A stable name for programs.")


class ErrorBody(BaseModel):
    """The body of every answer that is not a success."""

    error: ErrorDetail


ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorBody, "description": "The request was refused; `error.message` says why and what to do."},
    "5XX": {"model": ErrorBody, "description": "The server cannot do this now."},
}
"""What every endpoint may answer beside its success."""


def error_body(status: int, message: str, *, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """An error as a JSON object in OpenAI's shape."""
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return ErrorBody(
        error=ErrorDetail(message=message, type=kind, param=param, code=code or _CODES.get(status))
    ).model_dump()


def error_response(
    status: int,
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """An error as a response."""
    return JSONResponse(error_body(status, message, param=param, code=code), status, headers=dict(headers or {}))


def chat_error_response(error: ChatError) -> JSONResponse:
    """Convert a refusal of the service to a response."""
    status = next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)
    headers = {"Retry-After": str(error.retry_after)} if isinstance(error, TooManyRequests) else {}
    return error_response(status, error.message, param=error.param, code=error.code, headers=headers)


def install(app: FastAPI) -> None:
    """Answer every exception in OpenAI's shape."""

    @app.exception_handler(ChatError)
    async def chat_error(_: Request, error: ChatError) -> JSONResponse:
        return chat_error_response(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        # Of what may be of several kinds, the kind that was meant is what was read furthest.
        first = max(error.errors(), key=lambda error: len(error["loc"]))
        if first["type"] in ("json_invalid", "model_attributes_type"):
            detail = "The body is not a JSON object; send one, with the header Content-Type: application/json."
            return error_response(400, detail, code=str(first["type"]))
        where, *parts = first["loc"]
        place = ".".join(map(str, parts if where in ("body", "query", "path") else first["loc"]))
        message = f"{place}: {first['msg']}" if place else f"The request cannot be read: {first['msg']}"
        return error_response(400, message[:500], param=place[:200] or None, code=str(first["type"]))

    @app.exception_handler(HTTPException)
    async def http_error(_: Request, error: HTTPException) -> JSONResponse:
        return error_response(error.status_code, str(error.detail), headers=error.headers)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return error_response(500, "The server failed to do this; its log says why.", code="internal_error")


API_PREFIXES = ("/v1/", "/mcp", "/health", "/ready", "/metrics", "/openapi.json")


def is_api(path: str) -> bool:
    """Whether a path belongs to the API rather than to the page."""
    return path.startswith(API_PREFIXES)


_KEPT = ("allow", "connection", "retry-after", "www-authenticate")
_FAILED = "The page's server failed to do this; its log says why."


def _is_navigation(scope: Scope) -> bool:
    """Whether a browser asks for something to show, rather than a script or a program for something to read."""
    return not is_api(scope["path"]) and "text/html" in Headers(scope=scope).get("accept", "")


class MountedErrors:
    """Replaces the body of every answer from 400 on that no endpoint of the API gave, unknown paths of it included.

    Where a browser navigates, it is the page that `app.state.error_page` makes of it (`ui.routes`), if there is one.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
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
