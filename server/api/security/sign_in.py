"""How a person begins and ends a session: a key in a form, or a provider; the cookie is all that the browser keeps."""

from __future__ import annotations

import base64
import html
from dataclasses import replace
from typing import Literal
from urllib.parse import parse_qs, quote

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from server.access.principals import Principal
from server.api.security.oidc import OidcProvider, PendingSignIn, SignInFailed
from server.api.security.proxy import client_address
from server.api.security.throttle import KeyLookup
from server.audit_log import entry, note
from server.store import Database, audit, sessions
from text.translation import RIGHT_TO_LEFT, gettext, speak, spoken, wanted

_PAGE = """<!doctype html><html lang="{language}" dir="{direction}"><meta charset="utf-8"><title>Anaphora</title>
<meta name="viewport" content="width=device-width, initial-scale=1">{head}
<style>:root{{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}}body{{display:grid;place-items:center;
min-height:90vh;margin:0 1rem}}main{{width:min(26rem,100%)}}input,button,.button{{font:inherit;width:100%;
box-sizing:border-box;padding:.5rem;margin:.25rem 0;display:block}}.button{{border:1px solid;border-radius:.25rem;
text-align:center;text-decoration:none;color:inherit}}.problem{{color:#c22}}</style>
<main><h1>Anaphora</h1>{body}</main></html>"""

_FORM = """<form method="post" action="/login">
<label>{key} <input name="key" type="password" autocomplete="current-password" required{focus}></label>
<input type="hidden" name="next" value="{following}"><button>{open}</button>
<p>{made}</p></form>"""


def sign_in_page(following: str, provider: str = "", problem: str = "", status: int = 200, wait: int = 0) -> Response:
    """Where a key is asked for, and a provider offered where there is one; `following` is where to go then."""
    parts = [f'<p class="problem">{html.escape(problem)}</p>'] if problem else []
    following = local_path(following)
    if provider:
        address = f"/login/oidc?next={quote(following, safe='/')}"
        label = html.escape(gettext("Sign in with %(name)s", name=provider))
        parts.append(f'<p><a class="button" href="{address}">{label}</a></p>')
    hint = html.escape(gettext("Keys are made with %(command)s on the server."))
    parts.append(
        _FORM.format(
            key=html.escape(gettext("API key")),
            open=html.escape(gettext("Open")),
            made=hint % {"command": "<code>anaphora keys create NAME</code>"},
            following=html.escape(following),
            focus="" if provider else " autofocus",
        )
    )
    headers = {"Retry-After": str(wait)} if wait else {}
    return _page("\n".join(parts), status, headers=headers)


def leading_on_page(following: str) -> Response:
    """A page that goes on to another here.

    It is no redirect, because at the end of a way that began at another site a browser leaves the session's cookie
    (SameSite=Strict) at home.
    """
    address = html.escape(quote(local_path(following), safe="/?&=%#:@,;+~!$'()*"))
    head = f'<meta http-equiv="refresh" content="0;url={address}">'
    texts = html.escape(gettext("Signed in.")), html.escape(gettext("Go on"))
    return _page(f'<p>{texts[0]} <a href="{address}">{texts[1]}</a></p>', head=head)


def local_path(path: str) -> str:
    """`path` if it stays on this server, else the page."""
    stays = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and len(path) <= 1000
    return path if stays else "/"


def _page(body: str, status: int = 200, *, head: str = "", headers: dict[str, str] | None = None) -> Response:
    direction = "rtl" if spoken() in RIGHT_TO_LEFT else "ltr"
    page = _PAGE.format(language=spoken(), direction=direction, head=head, body=body)
    return HTMLResponse(page, status, {"Cache-Control": "no-store", **(headers or {})})


COOKIE = "anaphora_session"
PENDING_COOKIE = "anaphora_sign_in"

KEY_SESSION_SECONDS = 30 * 24 * 3600
PENDING_SECONDS = 600
"""How long a person may take at the provider."""


class SignIn:
    """Answers `/login`, what is below it, and `/logout`; everything else is not its business."""

    def __init__(
        self,
        database: Database,
        keys: KeyLookup,
        provider: OidcProvider | None,
        session_seconds: float,
    ) -> None:
        self._database = database
        self._keys = keys
        self._provider = provider
        self._label = provider.label if provider else ""
        self._session_seconds = session_seconds

    async def answer(self, request: Request) -> Response | None:
        """The response to a request of somebody who signs in or out, None for any other. Raises StoreError."""
        path = request.url.path.rstrip("/")
        if path == "/logout":
            return await self._logout(request)
        if not path.startswith("/login"):
            return None
        speak(wanted(request.cookies, request.headers.get("accept-language")))
        if path == "/login":
            if request.method == "POST":
                return await self._with_key(request)
            return sign_in_page(request.query_params.get("next", "/"), self._label)
        if self._provider is None or request.method != "GET":
            return None
        if path == "/login/oidc":
            return await self._to_provider(request, self._provider)
        if path == "/login/callback":
            return await self._from_provider(request, self._provider)
        return None

    async def _with_key(self, request: Request) -> Response:
        fields = parse_qs((await request.body()).decode("utf-8", "replace"))
        secret, following = fields.get("key", [""])[0].strip(), fields.get("next", ["/"])[0]
        key, wait = await self._keys.find(client_address(request.scope), secret)
        if wait:
            return self._too_many(following, wait)
        if key is None:
            return self._problem(gettext("This key is not known, or it was revoked."), following, 401)
        response = RedirectResponse(local_path(following), 303)
        await self._begin(request, response, key.principal, KEY_SESSION_SECONDS, key.id)
        return response

    async def _to_provider(self, request: Request, provider: OidcProvider) -> Response:
        following = local_path(request.query_params.get("next", "/"))
        try:
            address, pending = await provider.begin(_here(request, "/login/callback"), following)
        except SignInFailed as failed:
            return self._problem(str(failed), following, failed.status)
        response = RedirectResponse(address, 303)
        # The way back begins at another site, so that a strict cookie would not come along.
        _set_cookie(response, request, PENDING_COOKIE, _packed(pending), PENDING_SECONDS, "/login", "lax")
        return response

    async def _from_provider(self, request: Request, provider: OidcProvider) -> Response:
        address = client_address(request.scope)
        pending = _unpacked(request.cookies.get(PENDING_COOKIE, ""))
        following = pending.following if pending else "/"
        if wait := self._keys.wait(address):
            return self._too_many(following, wait)
        try:
            principal, id_token = await provider.finish(pending, request.query_params)
        except SignInFailed as failed:
            if failed.status < 500:
                self._keys.wrong(address, "session.begin")
            response = self._problem(str(failed), following, failed.status)
        else:
            response = leading_on_page(following)
            await self._begin(request, response, principal, self._session_seconds, id_token=id_token)
        response.delete_cookie(PENDING_COOKIE, "/login", httponly=True, samesite="lax")
        return response

    async def _begin(
        self,
        request: Request,
        response: Response,
        principal: Principal,
        seconds: float,
        key_id: str | None = None,
        id_token: str = "",
    ) -> None:
        """A new session; one that the browser had ends, so that nobody can lay one under a person's sign-in."""
        if before := request.cookies.get(COOKIE):
            await self._database.write(sessions.end, before)
        record = entry(replace(principal, origin=client_address(request.scope)), "session.begin")

        def write(connection: Connection) -> str:
            audit.append(connection, record)
            return sessions.begin(connection, principal, seconds, key_id, id_token)

        session = await self._database.write(write)
        _set_cookie(response, request, COOKIE, session, int(seconds))

    async def _logout(self, request: Request) -> Response:
        """End the session here, not only in the browser. A page elsewhere cannot: the cookie is not sent along."""
        address = "/"
        session = request.cookies.get(COOKIE)
        if session:
            principal = await self._database.read(sessions.find, session)
            id_token = await self._database.write(sessions.end, session)
            if principal:
                note(self._database, replace(principal, origin=client_address(request.scope)), "session.end")
            if id_token and self._provider:
                address = await self._provider.logout_address(id_token, _here(request, "/login")) or "/login"
        response = RedirectResponse(address, 303)
        if session:
            response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response

    def _too_many(self, following: str, wait: int) -> Response:
        message = gettext("Too many wrong tries. Try again in %(seconds)s s.", seconds=wait)
        return self._problem(message, following, 429, wait)

    def _problem(self, problem: str, following: str, status: int, wait: int = 0) -> Response:
        return sign_in_page(following, self._label, problem, status, wait)


def _set_cookie(
    response: Response,
    request: Request,
    name: str,
    value: str,
    seconds: int,
    path: str = "/",
    same_site: Literal["lax", "strict"] = "strict",
) -> None:
    response.set_cookie(
        name,
        value,
        max_age=seconds,
        path=path,
        httponly=True,
        samesite=same_site,
        secure=request.url.scheme == "https",
    )


def _here(request: Request, path: str) -> str:
    return str(request.url.replace(path=path, query="", fragment=""))


def _packed(pending: PendingSignIn) -> str:
    return base64.urlsafe_b64encode(pending.model_dump_json().encode()).decode().rstrip("=")


def _unpacked(text: str) -> PendingSignIn | None:
    """Undo `_packed`; None for anything else."""
    try:
        return PendingSignIn.model_validate_json(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except ValueError:
        return None
