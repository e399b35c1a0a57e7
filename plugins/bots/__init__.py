"""Bots: answer in Slack and in Discord, where a thread is a conversation.

`threads` asks, and remembers which conversation a thread is. `slack_bot` and `discord_bot` speak with their service by
its own library, over a connection that the server opens.
"""

from __future__ import annotations

from pydantic import Field, SecretStr

from server.access import DEFAULT_GROUP
from server.plugins import Plugin, SettingsGroup

plugin = Plugin(
    name="bots",
    summary="Answer in Slack and Discord.",
    settings="plugins.bots:BotSettings",
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
