"""Bots: answer in Slack and in Discord, where a thread is a conversation.

`threads` asks and remembers which conversation a thread is; `slack_bot` and `discord_bot` speak with their service by
its own library.
"""

from __future__ import annotations

from pydantic import Field, SecretStr

from server.access import DEFAULT_GROUP
from server.plugins import Plugin, SettingsGroup

plugin = Plugin(
    name="bots",
    summary="Answer in Slack and Discord.",
    settings="plugins.bots:BotSettings",
    commands={"bot": "plugins.bots.command:app"},
    tables=("plugins.bots.threads:TABLES",),
)


class BotSettings(SettingsGroup):
    """Configure `anaphora bot`. Whoever can write to a bot is a reader of `groups`."""

    collection: str = Field("", description="The collection that bots answer from; empty: the default one.")
    groups: tuple[str, ...] = Field((DEFAULT_GROUP,), description="Groups whose collections people reach by bots.")
    slack_app_token: SecretStr = Field(SecretStr(""), description="Slack's app-level token, `xapp-…`.")
    slack_bot_token: SecretStr = Field(SecretStr(""), description="Slack's bot token, `xoxb-…`.")
    discord_token: SecretStr = Field(SecretStr(""), description="The token of the bot in Discord.")
