"""Errors of what is mounted beside the API: the page's own routes answer in the API's shape too."""

from __future__ import annotations

import json
import logging
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.api.error_responses import error_response
from server.api.security.origins import is_api

log = logging.getLogger(__name__)


_KEPT = ("allow", "connection", "retry-after", "www-authenticate")


_FAILED = "The page's server failed to do this; its log says why."


class MountedErrors:
    """Replaces the body of every answer from 400 on that no endpoint of the API gave, unknown paths of it included."""

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
                if is_api(scope["path"]) and kind.startswith(("application/json", "text/event-stream")):
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
                    response = error_response(failed["status"], _message(failed["status"], body), headers=remaining)
                    await response(scope, receive, send)
                    answered = True

        try:
            await self._app(scope, receive, shaped)
        except Exception:
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
