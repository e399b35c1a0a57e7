"""The bots' half of a thread: they ask a running server, and load no models of their own."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter

from plugins.bots import BotSettings
from plugins.bots.threads import BotAnswer
from server.chat import Rating

_ANSWER = TypeAdapter(BotAnswer)
_SECONDS = 400.0
"""Longest wait for an answer: a turn ends before."""
_REMEMBERED = 1000
"""Messages of which a second delivery is known."""
AWAY = "The server does not answer now. Please ask again in a minute."
CONSENT = "This conversation may be sent to the people who help here."


class BotClient:
    """Asks the server of the settings; `async with` closes the connection."""

    def __init__(self, settings: BotSettings) -> None:
        key = settings.key.get_secret_value()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._http = httpx.AsyncClient(base_url=settings.server, headers=headers, timeout=_SECONDS)
        self._collection = settings.collection
        self._seen: OrderedDict[str, None] = OrderedDict()

    async def __aenter__(self) -> BotClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def problem(self) -> str:
        """Return why the server cannot be asked; empty where it can."""
        response = await self._send("GET", "v1/collections")
        if response is None:
            return f"No server answers at {self._http.base_url}: start `anaphora serve`, or set plugins.bots.server."
        return "" if response.is_success else _problem(response)

    def is_new(self, message: str) -> bool:
        """Whether a message was not delivered before; services deliver some twice."""
        new = message not in self._seen
        self._seen[message] = None
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return new

    async def knows(self, thread: str) -> bool:
        """Whether something was asked in a thread."""
        response = await self._send("GET", f"v1/bots/threads/{quote(thread, safe='')}")
        return response is not None and response.is_success

    async def answer(self, thread: str, person: str, question: str) -> BotAnswer:
        """Answer a question of a person; a refusal and a server that is away are answers, too."""
        body = {"thread": thread, "person": person, "question": question, "collection": self._collection}
        response = await self._send("POST", "v1/bots/answers", body)
        if response is None:
            return BotAnswer(AWAY)
        return _ANSWER.validate_json(response.content) if response.is_success else BotAnswer(_problem(response))

    async def rate(self, thread: str, turn: str, rating: Rating) -> str:
        """Keep what somebody thinks of an answer, and return what to tell."""
        response = await self._send("POST", "v1/bots/reactions", {"thread": thread, "turn": turn, "rating": rating})
        if response is not None and response.status_code == httpx.codes.NOT_FOUND:
            return "This answer is not kept any more."
        return _told(response, "Thank you, noted.")

    async def hand_over(self, thread: str, turn: str, place: str) -> str:
        """Pass a thread on to a person, and return what to tell."""
        response = await self._send("POST", "v1/bots/reactions", {"thread": thread, "turn": turn, "place": place})
        return _told(response, "Your conversation was passed on to a person.")

    async def _send(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response | None:
        try:
            return await self._http.request(method, path, json=body)
        except httpx.TransportError:
            return None


def _told(response: httpx.Response | None, words: str) -> str:
    if response is None:
        return AWAY
    return words if response.is_success else _problem(response)


def _problem(response: httpx.Response) -> str:
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"The server answered with HTTP {response.status_code}."
