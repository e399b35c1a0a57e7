"""The bot in Discord, by its own library over real sockets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from plugins.bots import BotSettings
from plugins.bots.discord_bot import MESSAGE_CHARS, pieces, run
from plugins.bots.tests.discord_server import BEN, FakeDiscord
from plugins.bots.threads import CONSENT, BotAnswer, CitedSource, Threads, linked
from tests.rows import ratings
from tests.serving import MakeSettings, Serve

pytest.importorskip("plugins.handoff")
MESSAGE_CONTENT = 1 << 15


@pytest.fixture(autouse=True)
def library() -> None:
    """Asked for here, because every process of a test run looks into this file."""
    pytest.importorskip("discord")


def test_a_mention_begins_a_thread_that_goes_on_without_mentions(
    serve: Serve, settings_for: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    import yarl
    from discord.gateway import DiscordWebSocket
    from discord.http import Route

    desk: dict[str, object] = {"kind": "webhook", "address": "http://127.0.0.1:9/", "secret": "s"}
    server = serve(settings_for("none", plugins={"handoff": desk, "bots": {"discord_token": "token"}}))
    service = server.service

    async def journey() -> None:
        discord = FakeDiscord()
        async with discord.running() as host:
            monkeypatch.setattr(Route, "BASE", f"http://{host}/api")
            monkeypatch.setattr(DiscordWebSocket, "DEFAULT_GATEWAY", yarl.URL(f"ws://{host}/gateway/"))
            running = asyncio.create_task(run(Threads(service), service.settings.of(BotSettings)))
            try:
                await discord.message("Lunch?")
                thread = await discord.message("<@1> How long is parental leave?")
                assert (await discord.call(f"messages/{thread}/threads"))["name"] == "How long is parental leave?"
                first = await discord.call(f"channels/{thread}/messages")
                assert "Parental leave lasts ten weeks. [1]" in first["content"]
                assert "-# [1] Parental leave › Length" in first["content"]
                assert first["allowed_mentions"] == {"parse": []}
                await discord.message("And how do I apply?", thread, BEN)
                assert "PL-7" in (await discord.call(f"channels/{thread}/messages"))["content"], "a follow-up"
                (conversation,) = await service.conversations.listing()
                assert conversation.turns == 2
                up, _ = buttons(first)
                await discord.press(up, thread)
                pressed = await discord.call("callback")
                assert (pressed["data"]["content"], pressed["data"]["flags"]) == ("Thank you, noted.", 64)
                (feedback,) = await asyncio.to_thread(ratings, service)
                assert feedback.rating == "up"
                await discord.press("anaphora:rate:up:nothing", thread)
                assert (await discord.call("callback"))["data"]["content"] == "This answer is not kept any more."
                await discord.message("I want to talk to a human", thread, BEN)
                offer = buttons(await discord.call(f"channels/{thread}/messages"))[-1]
                await discord.press(offer, thread)
                consent = (await discord.call("callback"))["data"]
                assert (consent["content"], consent["flags"]) == (CONSENT, 64)
                await discord.press(buttons(consent)[0], thread)
                assert "passed on to a person" in (await discord.call("callback"))["data"]["content"]
                assert discord.calls.empty()
                assert discord.intents & MESSAGE_CONTENT
            finally:
                running.cancel()
                await asyncio.wait({running})

    server.call(journey(), 300)


def buttons(sent: dict[str, Any]) -> list[str]:
    return [button["custom_id"] for row in sent["components"] for button in row["components"]]


def test_long_answers_are_several_messages_and_code_stays_code() -> None:
    code = "\n".join(f"line {n} " + "x" * 60 for n in range(60))
    answer = BotAnswer(f"Before.\n\n```python\n{code}\n```\n\nAfter.", sources=[CitedSource(1, "A [b](c) *d*", "")])
    sent = pieces(answer)
    assert len(sent) > 2
    assert all(len(part) <= MESSAGE_CHARS + 10 and part.count("```") % 2 == 0 for part in sent)
    assert sent[1].startswith("```python\nline")
    assert sent[-1].endswith(r"-# [1] A \[b\]\(c\) \*d\*")
    assert all(len(part) <= MESSAGE_CHARS + 10 for part in pieces(BotAnswer("```" + "x " * 2000 + "\nend " * 900)))


def test_markers_are_links_that_nothing_ends_early() -> None:
    sources = {7: CitedSource(1, "Leave", "https://docs.example/a(b) c"), 8: CitedSource(2, "Form", "")}
    assert linked("So [7] and [8], not ![9](https://x).", sources) == (
        "So [[1]](https://docs.example/a%28b%29%20c) and [2], not [9](https://x)."
    )
