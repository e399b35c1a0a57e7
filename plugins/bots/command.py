"""`anaphora bot`: answer in Slack or Discord until it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import typer

from cli.shared.state import InputError, State, state_of
from text.modules import need_extra

if TYPE_CHECKING:
    from plugins.bots import BotSettings
    from plugins.bots.client import BotClient

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
    from plugins.bots import BotSettings
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
