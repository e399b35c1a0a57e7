"""Slack as far as the bot uses it: methods of its Web API and a socket mode link, in the shapes of its reference."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

TEAM, BOT, APP_TOKEN, BOT_TOKEN = "T1", "UBOT", "xapp-1-test", "xoxb-test"


class FakeChatService:
    """A chat service on loopback: records the calls of a bot, and lets a test say what people do."""

    def __init__(self) -> None:
        self.calls: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()
        self.connected = asyncio.Event()
        self.ids = itertools.count(100)
        self.socket: web.WebSocketResponse

    async def call(self, end: str) -> dict[str, Any]:
        """Return what the next call brought, whose method or path must end so."""
        name, values = await asyncio.wait_for(self.calls.get(), 120)
        assert name.endswith(end), (name, values)
        return values

    def routes(self) -> Iterable[web.RouteDef]:
        """The API and the WebSocket."""
        raise NotImplementedError

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Serve; yield the address without its scheme."""
        app = web.Application()
        app.add_routes(self.routes())
        runner = web.AppRunner(app, shutdown_timeout=1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield f"127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


class FakeSlack(FakeChatService):
    """The service with a channel and two people."""

    async def message(self, text: str, *, thread: str = "", kind: str = "message", user: str = "UADA") -> str:
        """Let somebody write in channel C1; return the message's time."""
        at = f"{next(self.ids)}.000100"
        event = {"type": kind, "user": user, "text": text, "ts": at, "channel": "C1", "channel_type": "channel"}
        await self.send("events_api", {"event": event | ({"thread_ts": thread} if thread else {}), "team_id": TEAM})
        return at

    async def press(self, action: dict[str, Any], thread: str, message: str) -> None:
        """Let somebody press a button."""
        payload = {
            "type": "block_actions", "user": {"id": "UADA", "team_id": TEAM}, "team": {"id": TEAM},
            "channel": {"id": "C1"}, "message": {"ts": message, "thread_ts": thread},
            "actions": [action | {"block_id": "b", "action_ts": "1"}],
        }  # fmt: skip
        await self.send("interactive", payload)

    async def send(self, kind: str, payload: dict[str, Any]) -> None:
        """Send an envelope."""
        await self.connected.wait()
        body = {"api_app_id": "A1", "type": "event_callback", "event_id": "Ev1", "event_time": 1, **payload}
        envelope = {"envelope_id": str(next(self.ids)), "type": kind, "payload": body}
        await self.socket.send_json({**envelope, "accepts_response_payload": False})

    async def _method(self, request: web.Request) -> web.Response:
        name = request.match_info["method"]
        values = dict(await request.json() if request.content_type == "application/json" else await request.post())
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if token != (APP_TOKEN if name == "apps.connections.open" else BOT_TOKEN):
            return web.json_response({"ok": False, "error": "invalid_auth"})
        if name == "apps.connections.open":
            return web.json_response({"ok": True, "url": f"ws://{request.host}/link"})
        if name == "auth.test":
            about = {"url": "https://x.slack.com/", "team": "x", "user": "bot", "bot_id": "B1"}
            return web.json_response({"ok": True, "team_id": TEAM, "user_id": BOT, **about})
        await self.calls.put((name, values))
        return web.json_response({"ok": True, "channel": values.get("channel"), "ts": f"{next(self.ids)}.000200"})

    async def _link(self, request: web.Request) -> web.WebSocketResponse:
        self.socket = socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"type": "hello", "num_connections": 1, "connection_info": {"app_id": "A1"}})
        self.connected.set()
        async for _acknowledgement in socket:
            pass
        return socket

    def routes(self) -> Iterable[web.RouteDef]:
        return web.post("/api/{method}", self._method), web.get("/link", self._link)
