"""The bot in Slack: Bolt for Python over socket mode, so that no address has to be open."""

from __future__ import annotations

import asyncio
import html
import re
from typing import TYPE_CHECKING, Any

from plugins.bots import BotSettings
from plugins.bots.threads import CONSENT, BotAnswer, Threads, keep_answering, safe_address
from server.chat import ChatService, Rating
from text.modules import need_extra
from text.sanitize import sanitize_line

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncApp

MARKDOWN_CHARS, LABEL_CHARS, SOURCES_CHARS = 11_000, 75, 2_900
"""What a block of Slack takes."""
_MENTION, _LINK = re.compile(r"<@[A-Z0-9]+(?:\|[^>]*)?>"), re.compile(r"<(?:[^|>]*\|)?([^>]*)>")
WAITING = "…"
RATE, CHOOSE, HAND_OVER = "anaphora-rate", "anaphora-choose", "anaphora-person"
ASK = "Ask a person"


async def answer(service: ChatService) -> None:
    """Answer mentions and direct messages in Slack, over its socket mode, until cancelled; nothing without a token."""
    own = service.settings.of(BotSettings)
    if own.slack_bot_token.get_secret_value():
        await keep_answering(service, "slack", lambda threads: run(threads, own))


async def run(threads: Threads, settings: BotSettings, api: str = "https://slack.com/api/") -> None:
    """Answer until cancelled. Raises MissingExtra, and what Slack's library raises."""
    need_extra("slack", "The Slack bot", "slack_bolt", "aiohttp")
    from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
    from slack_bolt.async_app import AsyncApp
    from slack_sdk.web.async_client import AsyncWebClient

    token = settings.slack_bot_token.get_secret_value()
    app = AsyncApp(client=AsyncWebClient(token=token, base_url=api))
    add_handlers(app, threads)
    handler = AsyncSocketModeHandler(app, settings.slack_app_token.get_secret_value())
    try:
        await handler.connect_async()  # type: ignore[no-untyped-call]
        await asyncio.Event().wait()
    finally:
        await handler.close_async()  # type: ignore[no-untyped-call]


def add_handlers(app: AsyncApp, threads: Threads) -> None:
    """Let an app answer mentions, direct messages, further questions in its threads, and its buttons."""

    async def reply_to(client: Any, team: str, channel: str, at: str, person: str, text: str) -> None:
        # Slack would ask the addresses in an answer by itself, and so tell others what a document made it write.
        still = {"unfurl_links": False, "unfurl_media": False}
        message = await client.chat_postMessage(channel=channel, thread_ts=at, text=WAITING, **still)
        reply = await threads.answer(f"slack:{team}:{channel}:{at}", f"slack:{team}:{person}", text)
        plain = html.escape(sanitize_line(reply.text), quote=False)[:SOURCES_CHARS]
        await client.chat_update(channel=channel, ts=message["ts"], text=plain, blocks=blocks(reply))

    async def heard(event: dict[str, Any], context: Any, client: Any) -> None:
        if event.get("bot_id") or event.get("subtype") or not event.get("user"):
            return
        team, channel = context["team_id"] or "", event["channel"]
        at, mentions = event.get("thread_ts") or event["ts"], f"<@{context['bot_user_id']}" in event["text"]
        goes_on = event.get("thread_ts") and await threads.knows(f"slack:{team}:{channel}:{at}")
        if not (mentions or goes_on or event.get("channel_type") == "im"):
            return
        text = question(event["text"])
        if text and threads.is_new(f"slack:{channel}:{event['ts']}"):
            await reply_to(client, team, channel, at, event["user"], text)

    app.event("app_mention")(heard)
    app.event("message")(heard)

    async def rated(ack: Any, action: dict[str, Any], body: dict[str, Any], client: Any) -> None:
        await ack()
        channel, person, at = body["channel"]["id"], body["user"]["id"], body["message"].get("thread_ts", "")
        team = body["team"]["id"]
        rating: Rating = "up" if action["action_id"].endswith("up") else "down"
        words = await threads.rate(f"slack:{team}:{channel}:{at}", action["value"], rating)
        await client.chat_postEphemeral(channel=channel, user=person, thread_ts=at, text=words)

    async def chosen(ack: Any, action: dict[str, Any], body: dict[str, Any], client: Any) -> None:
        await ack()
        at = body["message"].get("thread_ts", "")
        if threads.is_new(f"slack:{body['channel']['id']}:{body['message']['ts']}:chosen"):
            await reply_to(client, body["team"]["id"], body["channel"]["id"], at, body["user"]["id"], action["value"])

    async def handed_over(ack: Any, action: dict[str, Any], body: dict[str, Any], client: Any) -> None:
        await ack()
        team, channel = body["team"]["id"], body["channel"]["id"]
        person, at = body["user"]["id"], body["message"].get("thread_ts", "")
        place = f"https://app.slack.com/client/{team}/{channel}/thread/{channel}-{at}"
        words = await threads.hand_over(f"slack:{team}:{channel}:{at}", action["value"], place)
        await client.chat_postEphemeral(channel=channel, user=person, thread_ts=at, text=words)

    async def opened(ack: Any) -> None:
        await ack()

    app.action(HAND_OVER)(handed_over)
    app.action(f"{HAND_OVER}-link")(opened)
    app.action(re.compile(f"^{RATE}-"))(rated)
    app.action(re.compile(f"^{CHOOSE}-"))(chosen)


def question(text: str) -> str:
    """Return what a person typed, without the mention of the bot and Slack's own markup."""
    return html.unescape(_LINK.sub(r"\1", _MENTION.sub("", text))).strip()


def blocks(answer: BotAnswer) -> list[dict[str, Any]]:
    """Return an answer as blocks of Slack: Markdown, sources as links, and buttons."""
    text = harmless(answer.text if len(answer.text) <= MARKDOWN_CHARS else f"{answer.text[:MARKDOWN_CHARS]}…")
    rows: list[dict[str, Any]] = [{"type": "markdown", "text": text}]
    lines = [f"[{source.number}] {_linked(source.label, source.url)}" for source in answer.sources]
    if answer.note:
        lines.insert(0, answer.note)
    while len("\n".join(lines)) > SOURCES_CHARS:
        lines.pop()
    if lines:
        rows.append({"type": "context", "elements": [{"type": "mrkdwn", "text": "\n".join(lines)}]})
    buttons = [
        _button(f"{CHOOSE}-{n}", text[:LABEL_CHARS], text) for n, text in enumerate(answer.alternatives[:5], start=1)
    ]
    if answer.turn:
        buttons += [_button(f"{RATE}-up", "👍", answer.turn), _button(f"{RATE}-down", "👎", answer.turn)]
    if answer.handoff == "link":
        buttons.append(_button(f"{HAND_OVER}-link", ASK, answer.turn) | {"url": answer.link})
    elif answer.handoff:
        words = {"text": CONSENT, "title": ASK, "confirm": "Send", "deny": "Cancel"}
        confirm = {name: {"type": "plain_text", "text": text} for name, text in words.items()}
        buttons.append(_button(HAND_OVER, ASK, answer.turn) | {"confirm": confirm})
    return [*rows, {"type": "actions", "elements": buttons}] if buttons else rows


def harmless(text: str) -> str:
    """Return a text in which `<!channel>` and the like are words and call nobody."""
    return re.sub(r"<(?=[!@#])", "<\u200b", text)


def _linked(label: str, url: str) -> str:
    text = html.escape(sanitize_line(label), quote=False)
    return f"<{html.escape(safe_address(url), quote=False).replace('|', '%7C')}|{text}>" if url else text


def _button(action: str, label: str, value: str) -> dict[str, Any]:
    return {
        "type": "button", "action_id": action, "value": value[:2000], "text": {"type": "plain_text", "text": label}
    }  # fmt: skip
