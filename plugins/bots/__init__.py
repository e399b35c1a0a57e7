"""Bots: answer in Slack and in Discord, where a thread is a conversation.

`threads` runs in the server: it asks, and remembers which conversation a thread is. `slack_bot` and `discord_bot` speak
with their service by its own library, and with the server by `client`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import typer
from pydantic import Field, SecretStr

from cli.shared.state import InputError, State, state_of
from server.plugins import Plugin, SettingsGroup
from text.modules import need_extra

if TYPE_CHECKING:
    from plugins.bots.client import BotClient


plugin = Plugin(
    name="bots",
    summary="Answer in Slack and Discord.",
    settings="plugins.bots:BotSettings",
    commands={"bot": "plugins.bots:app"},
    routers=("plugins.bots.bots_api:router",),
    tables=("plugins.bots.threads:TABLES",),
)


class BotSettings(SettingsGroup):
    """Configure `anaphora bot`. People who can write to a bot read what its key reads."""

    server: str = Field("http://127.0.0.1:7860", description="The server that bots ask.")
    key: SecretStr = Field(SecretStr(""), description="The key that bots ask with; empty where it wants none.")
    collection: str = Field("", description="The collection that bots answer from; empty: the default one.")
    slack_app_token: SecretStr = Field(SecretStr(""), description="Slack's app-level token, `xapp-…`.")
    slack_bot_token: SecretStr = Field(SecretStr(""), description="Slack's bot token, `xoxb-…`.")
    discord_token: SecretStr = Field(SecretStr(""), description="The token of the bot in Discord.")


app = typer.Typer(help="Answer in Slack or Discord.")


@app.command()
def slack(context: typer.Context) -> None:
    """Answer mentions and direct messages in Slack, over its socket mode."""
    need_extra("slack", "The Slack bot", "slack_bolt", "aiohttp")
    from plugins.bots.slack_bot import run

    _run(state_of(context), run, "slack_app_token", "slack_bot_token")


@app.command()
def discord(context: typer.Context) -> None:
    """Answer mentions and direct messages in Discord, over its gateway."""
    need_extra("discord", "The Discord bot", "discord")
    from plugins.bots.discord_bot import run

    _run(state_of(context), run, "discord_token")


def _run(state: State, run: Callable[[BotClient, BotSettings], Coroutine[Any, Any, None]], *tokens: str) -> None:
    from plugins.bots.client import BotClient

    own = state.settings().of(BotSettings)
    for token in tokens:
        if not getattr(own, token).get_secret_value():
            raise InputError(f"The bot needs a token: set plugins.bots.{token}.")

    async def answer() -> None:
        async with BotClient(own) as client:
            if problem := await client.problem():
                raise InputError(problem)
            state.err.print("Answering. Ctrl-C stops the bot.")
            await run(client, own)

    with suppress(KeyboardInterrupt):
        asyncio.run(answer())
