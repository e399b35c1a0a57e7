"""Allow the Gradio routes that the page uses, and nothing else.

Gradio serves far more than a page needs (calls by name, files of its upload folder, queues of anybody who knows a
session's name). Here a session belongs to whoever opened it: the name that the browser chose is joined with the
principal's, so that nobody listens to the queue of somebody else, ends it, or puts something into it. The service that
a call reaches decides whether it is allowed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.chat import Principal
from text.languages import ENGLISH, spoken
from ui.templates import direction

if TYPE_CHECKING:
    from gradio import Blocks

FILES = re.compile(r"/(?:assets|static|svelte)/[\w./@-]+|/theme\.css|/favicon\.ico|/manifest\.json|/robots\.txt")
"""Files of Gradio and of the page, the same for everybody."""
JOIN = "/gradio_api/queue/join"
CALLS = frozenset({JOIN, "/gradio_api/component_server", "/gradio_api/component_server/"})
"""Take JSON that names a session."""
QUEUE = "/gradio_api/queue/data"
HEARTBEAT = re.compile(r"/gradio_api/heartbeat/([\w-]{1,64})")
SAME_FOR_ALL = frozenset({"/config", "/gradio_api/app_id", "/gradio_api/startup-events", "/gradio_api/theme.css"})
"""The page's frame, without anybody's content."""
SESSION = "session_hash"


class PageGate:
    """Lets the page's requests through to Gradio, each with a session of its principal's own.

    `parts` are the page's: Gradio fails at calls of others, as a page sends them that is older than the server.
    """

    def __init__(self, app: ASGIApp, principal: Callable[[Scope], Principal], parts: Blocks) -> None:
        self._app = app
        self._principal = principal
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        path: str = scope["path"]
        own = "-" + hashlib.sha256(self._principal(scope).id.encode()).hexdigest()[:24]
        if path in CALLS:
            await self._call(scope, receive, send, own)
        elif path == QUEUE:
            query = [
                (name, value + own if name == SESSION else value)
                for name, value in parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
            ]
            try:
                await self._app({**scope, "query_string": urlencode(query).encode()}, receive, send)
            except RuntimeError as error:
                # Of a session that is gone it says so in the stream, and then fails with an answer that is no more one.
                if not isinstance(error.__cause__, HTTPException):
                    raise
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        elif HEARTBEAT.fullmatch(path):
            await self._app({**scope, "path": path + own, "raw_path": (path + own).encode()}, receive, send)
        elif path == "/":
            headers = [(name, value) for name, value in scope["headers"] if name.lower() != b"accept-encoding"]
            await self._app({**scope, "query_string": b"", "headers": headers}, receive, _InLanguage(send))
        elif path in SAME_FOR_ALL or FILES.fullmatch(path):
            await self._app({**scope, "query_string": b""}, receive, send)
        else:
            await PlainTextResponse("", 404)(scope, receive, send)

    async def _call(self, scope: Scope, receive: Receive, send: Send, own: str) -> None:
        """Hand on a call; its body, which holds its session, is read here within the size limit."""
        try:
            body = await Request(scope, receive).body()
        except ClientDisconnect:
            return
        if body:
            try:
                call = json.loads(body)
            except (ValueError, RecursionError):
                await PlainTextResponse("The body is no JSON.", 422)(scope, receive, send)
                return
            name, parts = (
                ("fn_index", self._parts.fns) if scope["path"] == JOIN else ("component_id", self._parts.blocks)
            )
            named = isinstance(call, dict) and isinstance(call.get(SESSION), str) and type(call.get(name)) is int
            if not named or call[name] not in parts:
                await PlainTextResponse("The session is missing, or the part.", 422)(scope, receive, send)
                return
            call[SESSION] += own
            body = json.dumps(call).encode()
        length = str(len(body)).encode()
        headers = [(name, value) for name, value in Headers(scope=scope).raw if name not in _REPLACED]
        headers += [(b"content-type", b"application/json"), (b"content-length", length)]
        read = False

        async def again() -> Message:
            nonlocal read
            if read:
                return await receive()
            read = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app({**scope, "headers": headers}, again, send)


class _InLanguage:
    """Send the page's frame in the language of the request, with its direction and words.

    What Gradio says of itself to programs that preview links is taken out.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message = {}
        self._body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        self._body += message.get("body", b"")
        if message.get("more_body", False):
            return
        head = f'<html lang="{spoken()}" dir="{direction()}"'.encode()
        body = re.sub(rb'<html\s+lang="en"', head, _PREVIEW.sub(b"", self._body), count=1)
        body = body.replace(b"</head>", b"<title>Anaphora</title></head>", 1)
        if spoken() != ENGLISH:
            body = body.replace(b"<head>", b'<head><script src="locale.js"></script>', 1)
        headers = [(name, value) for name, value in self._start["headers"] if name.lower() != b"content-length"]
        headers += [(b"content-length", str(len(body)).encode()), (b"vary", b"accept-language, cookie")]
        await self._send({**self._start, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


_PREVIEW = re.compile(rb'<meta\s+(?:property="og:|name="twitter:)[^>]*>')
_REPLACED = frozenset({b"content-type", b"content-length", b"transfer-encoding"})
