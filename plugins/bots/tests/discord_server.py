"""Discord as far as the bot uses it: routes of its HTTP API and a gateway, in the shapes of its reference."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

from aiohttp import WSMsgType, web

from plugins.bots.tests.slack_server import FakeChatService

BOT, GUILD, CHANNEL, ADA, BEN = "1", "10", "20", "2", "3"
TIME = "2026-01-01T00:00:00.000000+00:00"


def user(identity: str) -> dict[str, Any]:
    return {"id": identity, "username": f"u{identity}", "discriminator": "0", "avatar": None, "bot": identity == BOT}


def member(identity: str) -> dict[str, Any]:
    return {"user": user(identity), "roles": [], "joined_at": TIME, "deaf": False, "mute": False, "flags": 0}


def thread(identity: str, name: str) -> dict[str, Any]:
    times = {"archived": False, "auto_archive_duration": 1440, "archive_timestamp": TIME, "locked": False}
    counts = {"message_count": 0, "member_count": 1, "rate_limit_per_user": 0, "last_message_id": None, "flags": 0}
    place = {"id": identity, "guild_id": GUILD, "parent_id": CHANNEL, "owner_id": BOT, "type": 11, "name": name}
    return {**place, **counts, "thread_metadata": times}


def message(identity: str, channel: str, author: str, content: str, mentions: tuple[str, ...] = ()) -> dict[str, Any]:
    empty = {name: [] for name in ("mention_roles", "attachments", "embeds")}
    flags = {"tts": False, "mention_everyone": False, "pinned": False, "type": 0, "edited_timestamp": None}
    place = {"id": identity, "channel_id": channel, "guild_id": GUILD, "author": user(author), "timestamp": TIME}
    return {**place, **empty, **flags, "content": content, "mentions": [user(name) for name in mentions]}


def guild() -> dict[str, Any]:
    everyone = {"id": GUILD, "name": "@everyone", "permissions": str(1 << 40), "position": 0, "color": 0}
    role = everyone | {"hoist": False, "managed": False, "mentionable": False, "flags": 0}
    channel = {"id": CHANNEL, "type": 0, "name": "help", "position": 0, "permission_overwrites": [], "nsfw": False}
    lists = ("emojis", "features", "stickers", "voice_states", "members", "threads", "presences")
    levels = (
        "verification_level",
        "default_message_notifications",
        "explicit_content_filter",
        "mfa_level",
        "nsfw_level",
    )
    about = {"id": GUILD, "name": "G", "owner_id": ADA, "afk_timeout": 300, "preferred_locale": "en-US"}
    counts = {"premium_tier": 0, "system_channel_flags": 0, "large": False, "unavailable": False, "member_count": 3}
    return {
        **about, **counts, **{name: [] for name in lists}, **dict.fromkeys(levels, 0), "roles": [role],
        "channels": [channel | {"parent_id": None, "topic": None}], "joined_at": TIME, "afk_channel_id": None,
    }  # fmt: skip


def reply(data: object, status: int = 200) -> web.Response:
    """Return JSON under the type that Discord names, without a character set."""
    return web.Response(body=json.dumps(data).encode(), status=status, content_type="application/json")


class FakeDiscord(FakeChatService):
    """The service with a server, a channel and two people."""

    intents = 0

    def __init__(self) -> None:
        super().__init__()
        self._sent = itertools.count(1)

    async def message(self, content: str, channel: str = CHANNEL, author: str = ADA) -> str:
        """Let somebody write; return the message's id."""
        identity = str(next(self.ids))
        mentions = (BOT,) if f"<@{BOT}>" in content else ()
        body = message(identity, channel, author, content, mentions)
        await self.send("MESSAGE_CREATE", {**body, "member": member(author)})
        return identity

    async def press(self, custom_id: str, channel: str) -> None:
        """Let somebody press a button of a message."""
        await self.send("INTERACTION_CREATE", {
            "id": str(next(self.ids)), "application_id": BOT, "type": 3, "token": "token", "version": 1,
            "data": {"custom_id": custom_id, "component_type": 2}, "channel_id": channel, "guild_id": GUILD,
            "channel": thread(channel, "t") | {"permissions": "0"}, "member": member(BEN) | {"permissions": "0"},
            "message": message("90", channel, BOT, "answer"), "locale": "en-US", "entitlements": [],
            "authorizing_integration_owners": {"0": GUILD}, "context": 0, "attachment_size_limit": 1 << 20,
        })  # fmt: skip

    async def send(self, event: str, data: dict[str, Any]) -> None:
        """Send an event."""
        await self.connected.wait()
        await self.socket.send_json({"op": 0, "t": event, "s": next(self._sent), "d": data})

    async def _route(self, request: web.Request) -> web.Response:
        path = request.match_info["path"]
        body: dict[str, Any] = await request.json() if request.can_read_body else {}
        if request.headers.get("Authorization") != "Bot token" and not path.startswith("interactions/"):
            return reply({"message": "401: Unauthorized", "code": 0}, status=401)
        if path == "users/@me":
            return reply(user(BOT))
        if path == "oauth2/applications/@me":
            about = {"id": BOT, "name": "b", "icon": None, "description": "", "bot_public": True, "flags": 0}
            return reply(about | {"bot_require_code_grant": False, "verify_key": "", "owner": user(ADA)})
        if path.endswith("/typing"):
            return web.Response(status=204)
        await self.calls.put((path, body))
        if path.endswith("/threads"):
            channel = thread(path.split("/")[-2], body["name"])
            await self.send("THREAD_CREATE", channel | {"newly_created": True})
            return reply(channel)
        if path.startswith("interactions/"):
            return reply({"interaction": {"id": path.split("/")[1], "type": 3}})
        return reply(message(str(next(self.ids)), path.split("/")[1], BOT, body.get("content", "")))

    async def _gateway(self, request: web.Request) -> web.WebSocketResponse:
        self.socket = socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"op": 10, "d": {"heartbeat_interval": 45_000}})
        async for frame in socket:
            if frame.type is WSMsgType.TEXT and (data := frame.json())["op"] == 2:
                self.intents = data["d"]["intents"]
                session = {"session_id": "s", "resume_gateway_url": f"ws://{request.host}/gateway"}
                ready = {"v": 10, "user": user(BOT), "guilds": [], "application": {"id": BOT, "flags": 0}, **session}
                await socket.send_json({"op": 0, "t": "READY", "s": next(self._sent), "d": ready})
                self.connected.set()
                await self.send("GUILD_CREATE", guild())
        return socket

    def routes(self) -> Iterable[web.RouteDef]:
        return web.get("/gateway/", self._gateway), web.route("*", "/api/{path:.+}", self._route)
