"""API keys at the door: a Bearer token for programs, a login form and a cookie for the page."""

from __future__ import annotations

import hashlib
import hmac
import html
import sqlite3
import time
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, quote

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from server.api.errors import error_response
from server.api.security import is_api
from server.store import Database, keys

COOKIE = "anaphora_session"
SESSION_SECONDS = 30 * 24 * 3600
OPEN_PATHS = frozenset({"/health", "/ready", "/login"})
"""What may be asked for without a key: whether the server lives, and how to get in."""

REMEMBERED_SECONDS = 2.0
"""For so long it is not looked up again whether there are keys at all."""

_FORM = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Anaphora</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>:root{{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}}body{{display:grid;place-items:center;
min-height:90vh;margin:0 1rem}}form{{width:min(26rem,100%)}}input,button{{font:inherit;width:100%;
box-sizing:border-box;padding:.5rem;margin:.25rem 0}}.problem{{color:#c22}}</style>
<form method="post" action="/login"><h1>Anaphora</h1>{problem}
<label>API key <input name="key" type="password" autocomplete="current-password" required autofocus></label>
<input type="hidden" name="next" value="{next}"><button>Open</button>
<p>Keys are made with <code>anaphora keys create NAME</code> on the server.</p></form></html>"""


class KeyGuard:
    """Lets requests with a valid key through, and others only while no key is needed.

    `always` demands keys even where none exists yet; otherwise they are needed as soon as there is one.
    """

    def __init__(self, app: ASGIApp, *, database: Database, always: bool) -> None:
        self._app = app
        self._database = database
        self._always = always
        self._any = False
        self._looked = float("-inf")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or scope["path"] in OPEN_PATHS - {"/login"}:
            await self._app(scope, receive, send)
        elif scope["path"] == "/login" and scope["type"] == "http":
            await (await self._login(Request(scope, receive)))(scope, receive, send)
        elif await self._admitted(Headers(scope=scope)):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await _refusal(Request(scope, receive))(scope, receive, send)

    async def _admitted(self, headers: Headers) -> bool:
        if not await self._needed():
            return True
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            key = await self._database.read(lambda connection: keys.check(connection, secret.strip()))
            if key is None:
                return False
            if time.time() - (key.used or 0.0) > keys.USED_SECONDS:
                self._database.write_later(lambda connection: keys.note_use(connection, key.id))
            return True
        session = _cookie(headers)
        return bool(session) and await self._database.read(lambda connection: _session_is_valid(connection, session))

    async def _needed(self) -> bool:
        if self._always:
            return True
        if time.monotonic() - self._looked > REMEMBERED_SECONDS:
            self._any = await self._database.read(keys.any_active)
            self._looked = time.monotonic()
        return self._any

    async def _login(self, request: Request) -> Response:
        if request.method != "POST":
            return _form(request.query_params.get("next", "/"))
        fields = parse_qs((await request.body()).decode("utf-8", "replace"))
        secret, following = fields.get("key", [""])[0].strip(), fields.get("next", ["/"])[0]
        session = await self._database.read(lambda connection: _new_session(connection, secret))
        if session is None:
            return _form(following, "This key is not known, or it was revoked.")
        response = RedirectResponse(_local(following), 303)
        response.set_cookie(
            COOKIE,
            session,
            max_age=SESSION_SECONDS,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response


def _refusal(request: Request) -> Response:
    wants_page = "text/html" in request.headers.get("accept", "") and not is_api(request.url.path)
    if wants_page and request.method == "GET":
        return RedirectResponse(f"/login?next={quote(request.url.path)}", 303)
    return error_response(
        401,
        "An API key is needed: send `Authorization: Bearer KEY`. `anaphora keys create NAME` on the server makes one.",
        headers={"WWW-Authenticate": "Bearer"},
    )


def _form(following: str, problem: str = "") -> Response:
    shown = f'<p class="problem">{html.escape(problem)}</p>' if problem else ""
    page = _FORM.format(problem=shown, next=html.escape(_local(following)))
    return HTMLResponse(page, 401 if problem else 200, {"Cache-Control": "no-store"})


def _local(path: str) -> str:
    """`path` if it stays on this server, else the page."""
    stays = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if stays else "/"


def _cookie(headers: Headers) -> str:
    try:
        morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return morsel.value if morsel is not None else ""


# A session is signed with the hash of its key: revoking the key ends it, and nothing need be stored.
def _new_session(connection: sqlite3.Connection, secret: str) -> str | None:
    key = keys.check(connection, secret)
    if key is None:
        return None
    claim = f"{key.id}.{int(time.time()) + SESSION_SECONDS}"
    return f"{claim}.{_signature(keys.signing_secret(connection, key.id), claim)}"


def _session_is_valid(connection: sqlite3.Connection, session: str) -> bool:
    claim, _, signature = session.rpartition(".")
    key_id, _, until = claim.partition(".")
    if not (session.isascii() and until.isdecimal() and int(until) > time.time()):
        return False
    secret = keys.signing_secret(connection, key_id)
    return bool(secret) and hmac.compare_digest(signature, _signature(secret, claim))


def _signature(secret: str, claim: str) -> str:
    return hmac.new(f"session:{secret}".encode(), claim.encode(), hashlib.sha256).hexdigest()
