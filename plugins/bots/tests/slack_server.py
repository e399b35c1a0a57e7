"""Slack as far as the bot uses it: methods of its Web API and a socket mode link, in the shapes of its reference."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import WSMsgType, web

TEAM, BOT, APP_TOKEN, BOT_TOKEN = "T1", "UBOT", "xapp-1-test", "xoxb-test"


class FakeSlack:
    """Records the calls of a bot, and lets a test say what people do."""

    def __init__(self) -> None:
        self.calls: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()
        self.connected = asyncio.Event()
        self.acknowledged: list[str] = []
        self._socket: web.WebSocketResponse
        self._times = itertools.count(1)

    async def call(self, method: str) -> dict[str, Any]:
        """Return the arguments of the next call, which must be of this method."""
        name, values = await asyncio.wait_for(self.calls.get(), 120)
        assert name == method, (name, values)
        return values

    async def message(self, text: str, *, thread: str = "", kind: str = "message", user: str = "UADA") -> str:
        """Let somebody write in channel C1; return the message's time."""
        at = f"{next(self._times)}.000100"
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
        envelope = {"envelope_id": str(next(self._times)), "type": kind, "payload": body}
        await self._socket.send_json({**envelope, "accepts_response_payload": False})

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
        return web.json_response({"ok": True, "channel": values.get("channel"), "ts": f"{next(self._times)}.000200"})

    async def _link(self, request: web.Request) -> web.WebSocketResponse:
        self._socket = socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"type": "hello", "num_connections": 1, "connection_info": {"app_id": "A1"}})
        self.connected.set()
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                self.acknowledged.append(message.json()["envelope_id"])
        return socket

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Serve; yield the address of the API."""
        app = web.Application()
        app.router.add_post("/api/{method}", self._method)
        app.router.add_get("/link", self._link)
        runner = web.AppRunner(app, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}/api/"
        finally:
            await runner.cleanup()
