"""How often a principal may ask: refusals of requests, and the headers that say how its limits stand.

Counted are requests to the API; the page's calls and questions count themselves, where a refusal can be shown (`ui`).
The counting is `server.chat.limits`'.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.api.errors import chat_error_response
from server.chat import LimitReached
from server.chat.limits import WINDOW_SECONDS, PrincipalLimits, Standing


def limit_headers(standings: Sequence[Standing]) -> dict[str, str]:
    """How limits stand: `RateLimit` as the IETF's draft has it, and the names that OpenAI's clients know."""
    if not standings:
        return {}
    headers = {
        "RateLimit-Policy": ", ".join(f'"{one.name}";q={one.limit};w={WINDOW_SECONDS}' for one in standings),
        "RateLimit": ", ".join(f'"{one.name}";r={one.remaining};t={one.seconds}' for one in standings),
    }
    for one in standings:
        headers[f"X-RateLimit-Limit-{one.name.title()}"] = str(one.limit)
        headers[f"X-RateLimit-Remaining-{one.name.title()}"] = str(one.remaining)
        headers[f"X-RateLimit-Reset-{one.name.title()}"] = f"{one.seconds}s"
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
