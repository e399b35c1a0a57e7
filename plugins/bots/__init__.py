"""Bots: answer in Slack and in Discord, where a thread is a conversation.

`threads` runs in the server: it asks, and remembers which conversation a thread is. `slack_bot` and `discord_bot` speak
with their service by its own library, and with the server by `client`.
"""

from __future__ import annotations

from pydantic import Field, SecretStr

from server.plugins import Plugin, SettingsGroup

plugin = Plugin(
    name="bots",
    summary="Answer in Slack and Discord.",
    settings="plugins.bots:BotSettings",
    commands={"bot": "plugins.bots.command:app"},
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
