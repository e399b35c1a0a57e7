"""Bots: answer in Slack and in Discord, where a thread is a conversation.

`threads` asks, and remembers which conversation a thread is. `slack_bot` and `discord_bot` speak with their service by
its own library, over a connection that the server opens.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pkgutil import resolve_name

import typer
from pydantic import Field, SecretStr

from cli.shared.resources import fetch_models
from cli.shared.state import InputError, State, state_of
from server.access import DEFAULT_GROUP
from server.plugins import Plugin, SettingsGroup

plugin = Plugin(
    name="bots",
    summary="Answer in Slack and Discord.",
    settings="plugins.bots:BotSettings",
    commands={"bot": "plugins.bots:app"},
    tasks=("plugins.bots.slack_bot:answer", "plugins.bots.discord_bot:answer"),
    tables=("plugins.bots.threads:TABLES",),
)


class BotSettings(SettingsGroup):
    """Configure the bots of a server. Everybody who can write to one reads what `groups` may read."""

    groups: tuple[str, ...] = Field((DEFAULT_GROUP,), description="Groups whose collections the bots answer from.")
    collection: str = Field("", description="The collection that bots answer from; empty: the default one.")
    slack_app_token: SecretStr = Field(SecretStr(""), description="Slack's app-level token, `xapp-…`.")
    slack_bot_token: SecretStr = Field(
        SecretStr(""), description="Slack's bot token, `xoxb-…`; empty: no bot in Slack."
    )
    discord_token: SecretStr = Field(
        SecretStr(""), description="The token of the bot in Discord; empty: no bot in Discord."
    )


app = typer.Typer(help="Answer in Slack or Discord without a server, until stopped.")


@app.command()
def slack(context: typer.Context) -> None:
    """Answer mentions and direct messages in Slack. A server that has the tokens does so by itself."""
    _answer(state_of(context), "slack")


@app.command()
def discord(context: typer.Context) -> None:
    """Answer mentions and direct messages in Discord. A server that has the token does so by itself."""
    _answer(state_of(context), "discord")


def _answer(state: State, bot: str) -> None:
    settings = state.settings()
    token = "slack_bot_token" if bot == "slack" else "discord_token"
    if not getattr(settings.of(BotSettings), token).get_secret_value():
        raise InputError(f"The bot needs a token: set plugins.bots.{token}.")
    fetch_models(settings, state, llm=True)

    async def answer() -> None:
        from server.chat import open_service

        async with open_service(settings) as service:
            state.err.print("Answering. Ctrl-C stops the bot.")
            await resolve_name(f"plugins.bots.{bot}_bot:answer")(service)

    with suppress(KeyboardInterrupt):
        asyncio.run(answer())
