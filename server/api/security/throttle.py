"""How often: wrong keys and sign-ins of an address are slowed down, and a principal's requests are counted."""

from __future__ import annotations

import hashlib
import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.access import Principal
from server.api.error_responses import chat_error_response
from server.audit_log import note
from server.chat.error_mapping import LimitReached
from server.chat.limits import WINDOW_SECONDS, PrincipalLimits, RateLimitStatus
from server.store import Database, credentials
from server.store.credentials import ApiKey

if TYPE_CHECKING:
    from limits import RateLimitItem
    from limits.strategies import RateLimiter

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


class RequestLimit:
    """Counts requests of the principal that the door found, and answers 429 to one too many."""

    def __init__(self, app: ASGIApp, limits: PrincipalLimits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, principal = scope.get("path", ""), scope.get("state", {}).get("principal")
        if scope["type"] != "http" or principal is None or not path.startswith("/v1/"):
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
