"""The bot in Slack, by its own library over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from plugins.bots import BotSettings
from plugins.bots.slack_bot import blocks, question, run
from plugins.bots.tests.slack_server import APP_TOKEN, BOT_TOKEN, FakeSlack
from plugins.bots.threads import BotAnswer, CitedSource, Threads
from server.chat import ChatService, open_service
from testing.plugin import PluginContract

if TYPE_CHECKING:
    from server.settings import Settings
    from tests.serving import MakeSettings

pytest.importorskip("slack_bolt")


@asynccontextmanager
async def bot(settings: Settings, documents: Path | None = None) -> AsyncIterator[tuple[FakeSlack, ChatService]]:
    """A bot that answers from these documents, or from those of the test's home."""
    slack = FakeSlack()
    own = BotSettings.model_validate(
        {"slack_app_token": APP_TOKEN, "slack_bot_token": BOT_TOKEN, "collection": "live" if documents else ""}
    )
    async with slack.running() as api, open_service(settings, warm=False) as service:
        if documents:
            job = await service.collections.index_paths("live", [documents])
            while not (job := await service.admin.job(job.id)).finished:
                await asyncio.sleep(0.02)
        running = asyncio.create_task(run(Threads(service, own), own, api))
        try:
            yield slack, service
        finally:
            running.cancel()
            await asyncio.wait({running})


@pytest.fixture
def live(documents: Path, tmp_path: Path) -> Path:
    """The documents with addresses of their pages."""
    folder = tmp_path / "live"
    folder.mkdir()
    for path in documents.iterdir():
        address = f"---\nurl: https://docs.example.org/{path.stem}/\n---\n"
        (folder / path.name).write_text(address + path.read_text("utf-8"), "utf-8")
    return folder


async def answered(slack: FakeSlack) -> dict[str, Any]:
    """The bot's messages: it posts a sign that it reads, and puts the answer in its place."""
    waiting = await slack.call("chat.postMessage")
    assert (waiting["unfurl_links"], waiting["unfurl_media"]) == (False, False), "no address of an answer is asked"
    given = await slack.call("chat.update")
    assert "<" not in given["text"], "what is read aloud calls nobody"
    return {**given, "thread": waiting["thread_ts"]}


def test_a_thread_is_a_conversation_whose_answers_cite_and_can_be_rated(settings_for: MakeSettings, live: Path) -> None:
    async def journey() -> None:
        async with bot(settings_for("none"), live) as (slack, service):
            at = await slack.message("<@UBOT> How long is parental leave?", kind="app_mention")
            first = await answered(slack)
            assert first["thread"] == at
            markdown, sources, actions = first["blocks"]
            assert "Parental leave lasts ten weeks. [[1]](https://docs.example.org/leave/" in markdown["text"]
            assert "<https://docs.example.org/leave/" in sources["elements"][0]["text"]
            await slack.message("And how do I apply?", thread=at, user="UBEN")
            second = await answered(slack)
            assert "PL-7" in second["blocks"][0]["text"], "a follow-up, without a mention"
            (conversation,) = await service.conversations.listing()
            assert conversation.turns == 2
            await slack.press(actions["elements"][-1], at, first["ts"])
            assert (await slack.call("chat.postEphemeral"))["text"] == "Thank you, noted."
            (feedback,) = await service.turns.feedback_records()
            assert (feedback.rating, feedback.question) == ("down", "How long is parental leave?")
            # A message that is nobody's question, and the same one twice.
            await slack.message("Lunch?")
            await slack.message("<@UBOT>", kind="app_mention")
            await slack.message("<@UBOT> Who walks the unicorn &lt;!channel&gt;?", kind="app_mention")
            refused = await answered(slack)
            assert "<\u200b!channel>" in refused["blocks"][0]["text"], "the words that were searched, and no call"
            await slack.message("<@UBOT> What does a new badge cost?", kind="app_mention")
            assert "twenty euros" in (await answered(slack))["blocks"][0]["text"]
            assert slack.calls.empty()

    asyncio.run(asyncio.wait_for(journey(), 120))


def test_a_question_back_has_buttons(settings_for: MakeSettings) -> None:
    retrieval: dict[str, object] = {"rerank": "never", "profile": {"ask_back": 0.0001, "answerable": 0}}

    async def journey() -> None:
        async with bot(settings_for("none", retrieval=retrieval)) as (slack, _):
            at = await slack.message("<@UBOT> Are tickets refunded?", kind="app_mention")
            asked = await answered(slack)
            buttons = asked["blocks"][-1]["elements"]
            (refunds,) = (one for one in buttons if one["text"]["text"] == "Travel expenses › Refunds")
            for _ in range(2):  # pressed twice, answered once
                await slack.press(refunds, at, asked["ts"])
            assert "Train tickets are refunded" in (await answered(slack))["blocks"][0]["text"]
            assert slack.calls.empty()

    asyncio.run(asyncio.wait_for(journey(), 120))


def test_what_people_and_documents_write_calls_nobody_and_links_nowhere_else() -> None:
    typed = "<@UBOT> see <https://x.example|x.example> &amp; <#C1|general> &lt;b&gt;"
    assert question(typed) == "see x.example & general <b>"
    source = CitedSource(1, "A <!channel> | *b*", "https://docs.example/a|b)<!here>")
    markdown, context = blocks(BotAnswer("Look <!channel> <@U1>", sources=[source]))
    assert "<!" not in markdown["text"] + context["elements"][0]["text"]
    assert "<@" not in markdown["text"]
    assert context["elements"][0]["text"] == ("[1] <https://docs.example/a%7Cb%29%3C!here%3E|A &lt;!channel&gt; | *b*>")


class TestPlugin(PluginContract):
    name = "bots"
