"""Check every request before a route sees it: the server's door, as ASGI middleware.

What a proxy says, what a browser is told, which names and origins are answered and how long a body may be is told in
`server.api.middleware`. Here is who sends a request, and how often: sign-in by a form or a plugin, and the one place
that makes a `Principal` of a request. Wrong keys and sign-ins of an address are slowed down, and a principal's requests
are counted. Authorisation of a principal is decided in `server.access`.
"""

from __future__ import annotations

import hashlib
import html
import ipaddress
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal
from urllib.parse import parse_qs, quote

from sqlalchemy import Connection
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.access import LOCAL, NOBODY, Principal, SignInFailed, account, entry, note
from server.api.dependencies import chat_error_response, error_response, is_api
from server.api.middleware import (
    BodySizeMiddleware,
    HttpMiddleware,
    OriginMiddleware,
    ProxyHeaders,
    SecurityHeaders,
    client_address,
)
from server.chat.base import LimitReached
from server.chat.limits import WINDOW_SECONDS, PrincipalLimits, RateLimitStatus
from server.plugins import parts, paths
from server.store import Database, StoreError, credentials
from server.store.credentials import ApiKey
from text.languages import RIGHT_TO_LEFT, gettext, speak, spoken, wanted

if TYPE_CHECKING:
    from limits import RateLimitItem
    from limits.strategies import RateLimiter

    from server.settings import Settings


PER_ADDRESS = "10/minute; 40/hour; 200/day"
"""Wrong tries of one address; who goes on waits a minute, then an hour, then a day."""

IN_ALL = "300/minute"
"""Wrong tries that are remembered by address, which bounds the memory this takes; further ones are refused at once."""

KNOWN = 1024
"""Addresses whose keys were right lately: these keys are looked at however often others there were wrong."""

NETWORK_BITS = 64
"""What one customer has of the addresses of IP version 6."""


class LoginThrottle:
    """Counts wrong tries. Times are in whole seconds; nothing here waits."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, None] = OrderedDict()
        self._limiter: RateLimiter | None = None
        """Loaded with the first wrong try: most servers see none for long, and start the faster."""
        self._per_address: list[RateLimitItem] = []
        self._in_all: list[RateLimitItem] = []

    def wait(self, address: str, secret: str = "") -> int:
        """In how many seconds this address may try again; 0 if it may now, or was right with this secret before."""
        if self._limiter is None or (secret and _digest(address, secret) in self._known):
            return 0
        return _longest(self._limiter, self._per_address, network(address))

    def wrong(self, address: str) -> int:
        """Count a wrong try; seconds to wait where there are too many in all, else 0."""
        limiter = self._limiter or self._load()
        if not all(limiter.hit(item) for item in self._in_all):
            return _longest(limiter, self._in_all)
        for item in self._per_address:
            limiter.hit(item, network(address))
        return 0

    def right(self, address: str, secret: str) -> None:
        """Remember that a secret was right at this address."""
        digest = _digest(address, secret)
        self._known[digest] = None
        self._known.move_to_end(digest)
        if len(self._known) > KNOWN:
            self._known.popitem(last=False)

    def _load(self) -> RateLimiter:
        from limits import parse_many
        from limits.storage import MemoryStorage
        from limits.strategies import FixedWindowRateLimiter

        self._per_address, self._in_all = parse_many(PER_ADDRESS), parse_many(IN_ALL)
        self._limiter = FixedWindowRateLimiter(MemoryStorage())
        return self._limiter


def _longest(limiter: RateLimiter, items: list[RateLimitItem], *who: str) -> int:
    """Seconds until none of these limits is used up."""
    stats = [limiter.get_window_stats(item, *who) for item in items]
    now = time.time()
    return max((max(1, math.ceil(stat.reset_time - now)) for stat in stats if stat.remaining <= 0), default=0)


def network(address: str) -> str:
    """Return what one customer has: the address, of IP version 6 its network."""
    if ":" in address:
        return str(ipaddress.ip_network((address.partition("%")[0], NETWORK_BITS), strict=False))
    return address


def _digest(address: str, secret: str) -> bytes:
    return hashlib.sha256(f"{address} {secret}".encode("utf-8", "replace")).digest()


class KeyLookup:
    """Looks keys up for all ways to sign in, so that an address has as many tries by all of them together."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._throttle = LoginThrottle()

    async def find(self, address: str, secret: str) -> tuple[ApiKey | None, int]:
        """The key that an address shows, if it is one; and in how many seconds it may show the next after too many
        wrong ones. Raises StoreError."""
        if wait := self._throttle.wait(address, secret):
            return None, wait
        key = await self._database.read(credentials.check_key, secret)
        if key is None:
            return None, self.wrong(address, "key.refuse")
        self._throttle.right(address, secret)
        return key, 0

    def wait(self, address: str) -> int:
        """In how many seconds an address may try again."""
        return self._throttle.wait(address)

    def wrong(self, address: str, action: str) -> int:
        """Count that somebody was refused; seconds to wait where there are too many, of whom the log tells nothing."""
        # Tries that came together were all let through to here.
        wait = self._throttle.wait(address) or self._throttle.wrong(address)
        if not wait:
            note(self._database, Principal("", "nobody", "reader", frozenset(), address), action, outcome="refused")
        return wait


def limit_headers(standings: Sequence[RateLimitStatus]) -> dict[str, str]:
    """How limits stand: `RateLimit` as the IETF's draft has it, and the names that OpenAI's clients know."""
    if not standings:
        return {}
    headers = {
        "RateLimit-Policy": ", ".join(f'"{status.name}";q={status.limit};w={WINDOW_SECONDS}' for status in standings),
        "RateLimit": ", ".join(f'"{status.name}";r={status.remaining};t={status.seconds}' for status in standings),
    }
    for status in standings:
        headers[f"X-RateLimit-Limit-{status.name.title()}"] = str(status.limit)
        headers[f"X-RateLimit-Remaining-{status.name.title()}"] = str(status.remaining)
        headers[f"X-RateLimit-Reset-{status.name.title()}"] = f"{status.seconds}s"
    return headers


class RequestLimit(HttpMiddleware):
    """Counts requests of the principal that the door found, and answers 429 to one too many."""

    def __init__(self, app: ASGIApp, limits: PrincipalLimits) -> None:
        super().__init__(app)
        self._limits = limits

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal = scope.get("state", {}).get("principal")
        if principal is None or not scope["path"].startswith("/v1/"):
            await self._app(scope, receive, send)
            return
        refusal: Response | None = None
        try:
            await self._limits.request(principal)
        except LimitReached as error:
            refusal = chat_error_response(error)
        headers = limit_headers(await self._limits.standings(principal))

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(headers)
            await send(message)

        await (refusal or self._app)(scope, receive, with_headers if headers else send)


COOKIE = "anaphora_session"
KEY_SESSION_SECONDS = 30 * 24 * 3600
FORM_FIELDS = 16

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


class Authenticator:
    """A further way to sign in, which a plugin brings; each part does nothing here.

    `links` are buttons of the sign-in page: a label and a path below `/login/`. `identity_headers` are headers by which
    a trusted proxy says who signed in.
    """

    links: Mapping[str, str] = {}
    identity_headers: Sequence[str] = ()

    def identify(self, headers: Mapping[str, Sequence[str]]) -> Principal | None:
        """Return who a trusted proxy says sends a request, from its identity headers. Raises SignInFailed."""
        return None

    def admits(self, principal: Principal) -> bool:
        """Return whether the session of a principal still counts."""
        return True

    async def answer(self, request: Request, sign_in: SignIn) -> Response | None:
        """Answer a request below `/login/`; None for the path of another. Raises StoreError."""
        return None

    async def logout_address(self, id_token: str, back: str) -> str | None:
        """Return where whoever signed in with `id_token` goes to leave there too, and then comes `back`."""
        return None


class SignIn:
    """Answers `/login`, what is below it, and `/logout`; everything else is not its business."""

    def __init__(self, database: Database, keys: KeyLookup, authenticators: Sequence[Authenticator]) -> None:
        self._database = database
        self._keys = keys
        self._authenticators = authenticators

    async def answer(self, request: Request) -> Response | None:
        """Return the response to somebody who signs in or out, None for any other request. Raises StoreError."""
        path = request.url.path.rstrip("/")
        if path == "/logout":
            return await self._logout(request)
        if not path.startswith("/login"):
            return None
        speak(wanted(request.cookies, request.headers.get("accept-language")))
        if path == "/login":
            if request.method == "POST":
                return await self._with_key(request)
            return self._page(request.query_params.get("next", "/"))
        if wait := self._keys.wait(client_address(request.scope)):
            return self._too_many("/", wait)
        for authenticator in self._authenticators:
            if response := await authenticator.answer(request, self):
                return response
        return None

    async def begin(
        self,
        request: Request,
        response: Response,
        principal: Principal,
        seconds: float,
        key_id: str | None = None,
        id_token: str = "",
    ) -> None:
        """Begin a session. One that the browser had ends, so that nobody can lay one under a person's sign-in."""
        if before := request.cookies.get(COOKIE):
            await self._database.write(credentials.end_session, before)
        record = entry(replace(principal, origin=client_address(request.scope)), "session.begin")

        def write(connection: Connection) -> str:
            account(connection, record)
            return credentials.begin_session(connection, principal, seconds, key_id, id_token)

        set_cookie(response, request, COOKIE, await self._database.write(write), int(seconds))

    def problem(self, request: Request, failed: SignInFailed, following: str) -> Response:
        """Return the sign-in page with the reason; a refusal counts as a wrong try of the address."""
        if failed.status < 500:
            self._keys.wrong(client_address(request.scope), "session.begin")
        return self._page(following, str(failed), failed.status)

    async def _with_key(self, request: Request) -> Response:
        try:
            fields = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=FORM_FIELDS)
        except ValueError:
            # Whoever knows no key yet would keep everybody waiting with a million of them.
            fields = {}
        secret, following = fields.get("key", [""])[0].strip(), fields.get("next", ["/"])[0]
        key, wait = await self._keys.find(client_address(request.scope), secret)
        if wait:
            return self._too_many(following, wait)
        if key is None:
            return self._page(following, gettext("This key is not known, or it was revoked."), 401)
        if key.role == "visitor":
            return self._page(following, gettext("This key is for a chat on a web site and opens no page."), 403)
        response = RedirectResponse(local_path(following), 303)
        await self.begin(request, response, key.principal, KEY_SESSION_SECONDS, key.id)
        return response

    async def _logout(self, request: Request) -> Response:
        """End the session here, not only in the browser. A page elsewhere cannot: the cookie is not sent along."""
        address = "/"
        session = request.cookies.get(COOKIE)
        if session:
            principal = await self._database.read(credentials.find_session, session)
            id_token = await self._database.write(credentials.end_session, session)
            if principal:
                note(self._database, replace(principal, origin=client_address(request.scope)), "session.end")
            for authenticator in self._authenticators if id_token else ():
                address = await authenticator.logout_address(id_token, here(request, "/login")) or "/login"
        response = RedirectResponse(address, 303)
        if session:
            response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response

    def _too_many(self, following: str, wait: int) -> Response:
        message = gettext("Too many wrong tries. Try again in %(seconds)s s.", seconds=wait)
        return self._page(following, message, 429, {"Retry-After": str(wait)})

    def _page(
        self, following: str, problem: str = "", status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Ask for a key, and offer the other ways to sign in; `following` is where to go then."""
        following = local_path(following)
        parts = [f'<p class="problem">{html.escape(problem)}</p>'] if problem else []
        links = [link for authenticator in self._authenticators for link in authenticator.links.items()]
        for name, path in links:
            label = html.escape(gettext("Sign in with %(name)s", name=name))
            parts.append(f'<p><a class="button" href="{path}?next={quote(following, safe="/")}">{label}</a></p>')
        hint = html.escape(gettext("Keys are made with %(command)s on the server."))
        parts.append(
            _FORM.format(
                key=html.escape(gettext("API key")),
                open=html.escape(gettext("Open")),
                made=hint % {"command": "<code>anaphora keys create NAME</code>"},
                following=html.escape(following),
                focus="" if links else " autofocus",
            )
        )
        return _html("\n".join(parts), status, headers=headers)


def onward_page(following: str) -> Response:
    """Return a page that goes on to another here.

    It is no redirect, because at the end of a way that began at another site a browser leaves the session's cookie
    (SameSite=Strict) at home.
    """
    address = html.escape(quote(local_path(following), safe="/?&=%#:@,;+~!$'()*"))
    head = f'<meta http-equiv="refresh" content="0;url={address}">'
    texts = html.escape(gettext("Signed in.")), html.escape(gettext("Go on"))
    return _html(f'<p>{texts[0]} <a href="{address}">{texts[1]}</a></p>', head=head)


def local_path(path: str) -> str:
    """Return `path` if it stays on this server, else the page."""
    stays = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and len(path) <= 1000
    return path if stays else "/"


def here(request: Request, path: str) -> str:
    """Return the address of a path of this server, as the browser knows it."""
    return str(request.url.replace(path=path, query="", fragment=""))


def set_cookie(
    response: Response,
    request: Request,
    name: str,
    value: str,
    seconds: int,
    path: str = "/",
    same_site: Literal["lax", "strict"] = "strict",
) -> None:
    """Set a cookie that scripts cannot read, for TLS only where the browser came by it."""
    response.set_cookie(
        name,
        value,
        max_age=seconds,
        path=path,
        httponly=True,
        samesite=same_site,
        secure=request.url.scheme == "https",
    )


def _html(body: str, status: int = 200, *, head: str = "", headers: Mapping[str, str] | None = None) -> Response:
    direction = "rtl" if spoken() in RIGHT_TO_LEFT else "ltr"
    page = _PAGE.format(language=spoken(), direction=direction, head=head, body=body)
    return HTMLResponse(page, status, {"Cache-Control": "no-store", **(headers or {})})


log = logging.getLogger(__name__)

OPEN_PATHS = frozenset({"/health", "/ready"})
"""Paths that need no key, beside the public ones of plugins."""

SHARED = "/shared/"
"""Below it are links whose secret is all that is asked for."""

_VISITORS_KEY = "This key is for the chat on a web site, and opens nothing else."

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
        self._of_visitors = tuple(paths("visitor_paths"))

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
                    if outcome.role == "visitor" and not (is_open or scope["path"].startswith(self._of_visitors)):
                        answer = error_response(403, _VISITORS_KEY, code="forbidden")
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


def door(settings: Settings, database: Database) -> list[Middleware]:
    """The parts of the door up to where the principal is known, the outermost first. Raises PluginError, MissingExtra.

    `database` keeps keys and sessions.
    """
    server = settings.server
    authenticators = [way for make in parts("authenticators") if (way := make(settings)) is not None]
    identity_headers = {header for authenticator in authenticators for header in authenticator.identity_headers}
    return [
        Middleware(ProxyHeaders, addresses=server.proxies, identity_headers=identity_headers),
        Middleware(SecurityHeaders),
        Middleware(OriginMiddleware, hosts=server.trusted_hosts, any_host=not server.on_loopback),
        Middleware(BodySizeMiddleware, upload_bytes=server.max_body_mb << 20),
        Middleware(AuthMiddleware, database=database, always=settings.needs_sign_in, authenticators=authenticators),
    ]
