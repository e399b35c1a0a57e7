"""API keys at the door: a Bearer token for programs, a login form and a cookie for the page."""

from __future__ import annotations

import html
import logging
import time
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, quote

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from server.access import LOCAL, Principal
from server.api.door.headers import is_api
from server.api.errors import error_response
from server.store import Database, StoreError, keys, sessions

log = logging.getLogger(__name__)

COOKIE = "anaphora_session"
SESSION_SECONDS = 30 * 24 * 3600
OPEN_PATHS = frozenset({"/health", "/ready"})
"""What may be asked for without a key: whether the server lives."""

REMEMBERED_SECONDS = 2.0
"""For so long it is not looked up again whether a key is needed."""

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

    `always` demands keys even where none exists yet; otherwise they are needed from the first one on, until the
    operator opens the server again (`keys.open_up`).
    """

    def __init__(self, app: ASGIApp, *, database: Database, always: bool) -> None:
        self._app = app
        self._database = database
        self._always = always
        self._required = False
        self._looked = float("-inf")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] not in ("http", "websocket") or path in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        answer: Response | None = None
        try:
            if path == "/login" and scope["type"] == "http":
                answer = await self._login(Request(scope, receive))
            elif path.rstrip("/") == "/logout" and scope["type"] == "http":
                answer = await self._logout(headers)
            else:
                principal = await self._principal(headers)
                if principal is None:
                    answer = _refusal(scope)
                else:
                    scope.setdefault("state", {})["principal"] = principal
        except StoreError as error:
            log.error("whether a request is allowed cannot be looked up: %s", error)
            answer = error_response(503, "The server's database cannot be used now; its log says why.")
        if answer is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await answer(scope, receive, send)

    async def _principal(self, headers: Headers) -> Principal | None:
        """Who sent a request; None where nobody may come in with it."""
        if not await self._needed():
            return LOCAL
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            key = await self._database.read(lambda connection: keys.check(connection, secret.strip()))
            if key is None:
                return None
            if time.time() - (key.used or 0.0) > keys.USED_SECONDS:
                self._database.write_later(lambda connection: keys.note_use(connection, key.id))
            return key.principal
        session = _cookie(headers)
        return await self._database.read(lambda connection: sessions.find(connection, session)) if session else None

    async def _needed(self) -> bool:
        if self._always:
            return True
        if time.monotonic() - self._looked > REMEMBERED_SECONDS:
            self._required = await self._database.read(keys.required)
            self._looked = time.monotonic()
        return self._required

    async def _login(self, request: Request) -> Response:
        if request.method != "POST":
            return _form(request.query_params.get("next", "/"))
        fields = parse_qs((await request.body()).decode("utf-8", "replace"))
        secret, following = fields.get("key", [""])[0].strip(), fields.get("next", ["/"])[0]
        key = await self._database.read(lambda connection: keys.check(connection, secret))
        if key is None:
            return _form(following, "This key is not known, or it was revoked.")
        session = await self._database.write(
            lambda connection: sessions.begin(connection, key.principal, SESSION_SECONDS, key.id)
        )
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

    async def _logout(self, headers: Headers) -> Response:
        """End the session here, not only in the browser. A page elsewhere cannot: the cookie is not sent along."""
        if session := _cookie(headers):
            await self._database.write(lambda connection: sessions.end(connection, session))
        response = RedirectResponse("/", 303)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response


def _refusal(scope: Scope) -> Response:
    path = scope["path"]
    wants_page = "text/html" in Headers(scope=scope).get("accept", "") and not is_api(path)
    if wants_page and scope.get("method") == "GET":
        return RedirectResponse(f"/login?next={quote(path)}", 303)
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
