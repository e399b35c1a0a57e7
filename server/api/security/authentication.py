"""Authentication of a request: the one place that makes a `Principal` of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from server.access import LOCAL, NOBODY, Principal, SignInFailed
from server.api.error_responses import error_response, is_api
from server.api.security.proxy import client_address
from server.api.security.sign_in import COOKIE, Authenticator, SignIn
from server.api.security.throttle import KeyLookup
from server.plugins import paths
from server.store import Database, StoreError, credentials

log = logging.getLogger(__name__)

OPEN_PATHS = frozenset({"/health", "/ready"})
"""Paths that need no key, beside the public ones of plugins."""

SHARED = "/shared/"
"""Below it are links whose secret is all that is asked for."""

REMEMBERED_SECONDS = 2.0
"""For so long it is not looked up again whether a key is needed."""


class AuthMiddleware:
    """Lets requests through whose principal is known: by a key, a session, or what a trusted proxy says.

    `always` demands that even where no key exists yet; otherwise it is needed from the first one on, until the operator
    opens the server again (`credentials.require_no_key`), and whoever comes before is `LOCAL`.
    """

    def __init__(
        self, app: ASGIApp, *, database: Database, always: bool, authenticators: Sequence[Authenticator]
    ) -> None:
        self._app = app
        self._database = database
        self._always = always
        self._required = False
        self._looked = float("-inf")
        self._keys = KeyLookup(database)
        self._authenticators = authenticators
        self._sign_in = SignIn(database, self._keys, authenticators)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        answer: Response | None = None
        is_open = scope["path"] in OPEN_PATHS | paths("public_paths") or scope["path"].startswith(SHARED)
        state = scope.setdefault("state", {})
        state["principal"] = NOBODY
        try:
            if scope["type"] == "http":
                answer = await self._sign_in.answer(Request(scope, receive))
            if answer is None and scope["path"] != "/health":
                outcome = await self._principal(scope)
                if isinstance(outcome, Principal):
                    state["principal"] = replace(outcome, origin=client_address(scope))
                elif not is_open:
                    answer = outcome
        except StoreError as error:
            log.error("whether a request is allowed cannot be looked up: %s", error)
            if not is_open:
                answer = error_response(503, "The server's database cannot be used now; its log says why.")
        if answer is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await answer(scope, receive, send)

    async def _principal(self, scope: Scope) -> Principal | Response:
        """Return the principal of a request, or the response that refuses it."""
        identity = scope["state"].get("identity", {})
        try:
            for authenticator in self._authenticators:
                if principal := authenticator.identify(identity):
                    return principal
        except SignInFailed as failed:
            return error_response(failed.status, str(failed))
        if not await self._needed():
            return LOCAL
        headers = Headers(scope=scope)
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            key, wait = await self._keys.find(client_address(scope), secret.strip())
            if wait:
                message = f"Too many requests with wrong keys came from this address. Try again in {wait} seconds."
                return error_response(429, message, headers={"Retry-After": str(wait)})
            if key is None:
                return _refusal(scope)
            if time.time() - (key.used or 0.0) > credentials.USED_SECONDS:
                self._database.write_later(lambda connection: credentials.note_key_use(connection, key.id))
            return key.principal
        session = HTTPConnection(scope).cookies.get(COOKIE)
        principal = await self._database.read(credentials.find_session, session) if session else None
        if principal is None or not self._admits(principal):
            return _refusal(scope)
        return principal

    def _admits(self, principal: Principal) -> bool:
        """Return whether a session still counts: by a key, or by what the settings still name."""
        return principal.id.startswith("key:") or any(way.admits(principal) for way in self._authenticators)

    async def _needed(self) -> bool:
        if self._always:
            return True
        if time.monotonic() - self._looked > REMEMBERED_SECONDS:
            self._required = await self._database.read(credentials.key_required)
            self._looked = time.monotonic()
        return self._required


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
