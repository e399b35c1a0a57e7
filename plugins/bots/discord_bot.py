"""The bot in Discord: discord.py over Discord's gateway."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from plugins.bots import BotSettings
from plugins.bots.threads import CONSENT, BotAnswer, Threads, keep_answering, safe_address
from server.chat import ChatService
from text.modules import need_extra
from text.sanitize import sanitize_line

if TYPE_CHECKING:
    import discord

MESSAGE_CHARS, LABEL_CHARS, TITLE_CHARS, BUTTONS = 1900, 80, 90, 5
"""What Discord takes, with some room."""
_MENTION = re.compile(r"<@[!&]?\d+>")
RATE, CHOOSE, HAND_OVER, SEND = "anaphora:rate:", "anaphora:choose:", "anaphora:person:", "anaphora:send:"


async def answer(service: ChatService) -> None:
    """Answer mentions and direct messages in Discord, over its gateway, until cancelled; nothing without a token."""
    own = service.settings.of(BotSettings)
    if own.discord_token.get_secret_value():
        await keep_answering(service, "discord", lambda threads: run(threads, own))


async def run(threads: Threads, settings: BotSettings) -> None:
    """Answer until cancelled. Raises MissingExtra, and what discord.py raises."""
    need_extra("discord", "The Discord bot", "discord")
    async with make_client(threads) as client:
        await client.start(settings.discord_token.get_secret_value())


def make_client(threads: Threads) -> discord.Client:
    """Return a client that answers mentions, direct messages, further questions in its threads, and its buttons."""
    import discord

    intents = discord.Intents(guilds=True, messages=True, message_content=True)
    client = discord.Client(intents=intents, allowed_mentions=discord.AllowedMentions.none())

    async def reply_to(channel: Any, person: int, text: str) -> None:
        async with channel.typing():
            reply = await threads.answer(f"discord:{channel.id}", f"discord:{person}", text)
        *parts, last = pieces(reply)
        for part in parts:
            await channel.send(part, suppress_embeds=True)
        await channel.send(last, view=_buttons(reply), suppress_embeds=True)

    @client.event
    async def on_message(message: discord.Message) -> None:
        text = _MENTION.sub("", message.content).strip()
        if message.author.bot or not text or not threads.is_new(f"discord:{message.id}"):
            return
        channel: Any = message.channel
        mentioned = client.user in message.mentions
        if isinstance(channel, discord.Thread):
            if not (mentioned or await threads.knows(f"discord:{channel.id}")):
                return
        elif not isinstance(channel, discord.DMChannel):
            if not mentioned:
                return
            channel = await message.create_thread(name=sanitize_line(text)[:TITLE_CHARS])
        await reply_to(channel, message.author.id, text)

    @client.event
    async def on_interaction(pressed: discord.Interaction) -> None:
        data: Any = pressed.data or {}
        name = str(data.get("custom_id", ""))
        channel: Any = pressed.channel
        if name.startswith(RATE):
            rating, _, turn = name.removeprefix(RATE).partition(":")
            words = await threads.rate(f"discord:{pressed.channel_id}", turn, "up" if rating == "up" else "down")
            await pressed.response.send_message(words, ephemeral=True)
        elif name.startswith(HAND_OVER):
            await pressed.response.send_message(CONSENT, view=_consent(name.removeprefix(HAND_OVER)), ephemeral=True)
        elif name.startswith(SEND):
            place = f"https://discord.com/channels/{pressed.guild_id or '@me'}/{pressed.channel_id}"
            words = await threads.hand_over(f"discord:{pressed.channel_id}", name.removeprefix(SEND), place)
            await pressed.response.send_message(words, ephemeral=True)
        elif name.startswith(CHOOSE):
            await pressed.response.defer()
            at = pressed.message.id if pressed.message else 0
            if threads.is_new(f"discord:{at}:chosen"):
                # A label is cut; the number of an alternative is an answer to a question back.
                await reply_to(channel, pressed.user.id, name.removeprefix(CHOOSE))

    return client


def pieces(answer: BotAnswer) -> list[str]:
    """Return an answer with its sources as messages that are short enough; a block of code goes on in the next one."""
    sources = [f"-# [{source.number}] {_linked(source.label, source.url)}" for source in answer.sources]
    lines = [*answer.text.splitlines(), *([f"-# {answer.note}"] if answer.note else []), *sources]
    messages, fence = [""], ""
    for line in lines:
        for start in range(0, max(1, len(line)), MESSAGE_CHARS // 2):
            part = line[start : start + MESSAGE_CHARS // 2]
            if len(messages[-1]) + len(part) + 1 > MESSAGE_CHARS:
                messages[-1] += "\n```" if fence else ""
                messages.append(fence)
            messages[-1] += f"\n{part}" if messages[-1] else part
        if line.lstrip().startswith("```"):
            fence = "" if fence else line.strip()[:LABEL_CHARS]
    return [message.strip("\n") or "…" for message in messages]


def _linked(label: str, url: str) -> str:
    text = re.sub(r"([\[\]()*_`~|\\<>@])", r"\\\1", sanitize_line(label))
    return f"[{text}](<{safe_address(url)}>)" if url else text


def _buttons(answer: BotAnswer) -> Any:
    from discord import ui

    view = ui.View(timeout=None)
    for n, text in enumerate(answer.alternatives[:BUTTONS], start=1):
        view.add_item(ui.Button[Any](label=text[:LABEL_CHARS], custom_id=f"{CHOOSE}{n}", row=0))
    if answer.turn:
        for rating, sign in (("up", "👍"), ("down", "👎")):
            view.add_item(ui.Button[Any](label=sign, custom_id=f"{RATE}{rating}:{answer.turn}", row=1))
    if answer.handoff == "link":
        view.add_item(ui.Button[Any](label="Ask a person", url=answer.link, row=1))
    elif answer.handoff:
        view.add_item(ui.Button[Any](label="Ask a person", custom_id=f"{HAND_OVER}{answer.turn}", row=1))
    view.stop()  # presses come to on_interaction, also after a restart
    return view


def _consent(turn: str) -> Any:
    from discord import ui

    view = ui.View(timeout=None)
    view.add_item(ui.Button[Any](label="Send", custom_id=f"{SEND}{turn}"))
    view.stop()
    return view
