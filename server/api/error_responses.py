"""Every error of the API in OpenAI's shape, with a status that says what kind it is."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from server.chat import ChatError, Conflict, Forbidden, InvalidRequest, NotFound, TooLarge, TooManyRequests, Unavailable

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
