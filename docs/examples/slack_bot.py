"""A Slack bot that answers from your documents when it is mentioned; a thread is a conversation.

    pip install slack_bolt anaphora-client
    export SLACK_BOT_TOKEN=xoxb-… SLACK_APP_TOKEN=xapp-…      # socket mode; scopes app_mentions:read, chat:write,
    python docs/examples/slack_bot.py                         # channels:history

ANAPHORA_URL, ANAPHORA_KEY (a key of the role `reader`) and ANAPHORA_COLLECTION name what it asks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, Literal

from anaphora_client import AnaphoraClient, ApiError

_MENTION = re.compile(r"<@[A-Z0-9]+>\s*")
_LONGEST = 3000


def reply(client: AnaphoraClient, thread: Sequence[dict[str, Any]], bot: str, collection: str = "") -> str:
    """What to answer to a thread of Slack messages whose last one is the question; `bot` is the bot's own user id."""
    said = [(message.get("user"), _MENTION.sub("", message.get("text", "")).strip()) for message in thread]
    history = [_words("assistant" if user == bot else "user", text) for user, text in said[:-1] if text]
    try:
        answer = client.ask(said[-1][1], collection=collection, history=history)
    except ApiError as error:
        return f"I cannot answer now: {_plain(str(error))}"
    sources = "\n".join(f"[{source.n}] {_plain(source.title)}" for source in answer.sources)
    return f"{_plain(answer.text)}\n\n{sources}".strip()[:_LONGEST]


def _words(role: Literal["user", "assistant"], text: str) -> Any:
    return {"role": role, "content": text}


def _plain(text: str) -> str:
    """Text that mentions nobody and links to nothing: Slack reads &, < and >."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def main() -> None:
    """Listen until interrupted."""
    from slack_bolt import App
    from slack_bolt.adapter.socket_mode import SocketModeHandler

    app, collection = App(token=os.environ["SLACK_BOT_TOKEN"]), os.environ.get("ANAPHORA_COLLECTION", "")
    url, key = os.environ.get("ANAPHORA_URL", "http://127.0.0.1:7860"), os.environ.get("ANAPHORA_KEY", "")
    anaphora, own = AnaphoraClient(url, key), app.client.auth_test()["user_id"]

    @app.event("app_mention")
    def mentioned(event: dict[str, Any], say: Any) -> None:
        root = event.get("thread_ts", event["ts"])
        thread = app.client.conversations_replies(channel=event["channel"], ts=root, limit=20)["messages"]
        say(reply(anaphora, thread, own, collection), thread_ts=root)

    SocketModeHandler(app, os.environ["SLACK_APP_TOKEN"]).start()


if __name__ == "__main__":
    main()
