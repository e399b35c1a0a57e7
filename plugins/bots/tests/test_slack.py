"""The bot in Slack, by its own library over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli import add_plugin_commands
from cli import app as cli
from cli.shared.error_handler import ExitCode
from plugins.bots import BotSettings, slack_bot
from plugins.bots.slack_bot import HAND_OVER, blocks, question, run
from plugins.bots.tests.slack_server import APP_TOKEN, BOT_TOKEN, FakeSlack
from plugins.bots.threads import CONSENT, BotAnswer, CitedSource, Threads
from server.chat import ChatService
from testing.plugin import PluginContract
from tests.rows import ratings
from tests.serving import MakeSettings, Serve

pytest.importorskip("slack_bolt")
add_plugin_commands()


BOT: dict[str, object] = {"slack_app_token": APP_TOKEN, "slack_bot_token": BOT_TOKEN}


@asynccontextmanager
async def bot(service: ChatService) -> AsyncIterator[FakeSlack]:
    """The bot of a server, which runs in it."""
    slack = FakeSlack()
    async with slack.running() as host:
        own = service.settings.of(BotSettings)
        answering = asyncio.create_task(run(Threads(service), own, f"http://{host}/api/"))
        try:
            yield slack
        finally:
            answering.cancel()
            await asyncio.wait({answering})


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
    message = await slack.call("chat.update")
    assert "<" not in message["text"], "what is read aloud calls nobody"
    return {**message, "thread": waiting["thread_ts"]}


def test_a_thread_is_a_conversation_whose_answers_cite_and_can_be_rated(
    serve: Serve, settings_for: MakeSettings, live: Path
) -> None:
    running = serve(settings_for("none", plugins={"bots": {**BOT, "collection": "live"}}))
    service = running.service
    running.index("live", live)

    async def journey() -> None:
        async with bot(service) as slack:
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
            (feedback,) = await asyncio.to_thread(ratings, service)
            assert feedback.rating == "down"
            # A message that is nobody's question, and the same one twice.
            await slack.message("Lunch?")
            await slack.message("<@UBOT>", kind="app_mention")
            await slack.message("<@UBOT> Who walks the unicorn &lt;!channel&gt;?", kind="app_mention")
            refused = await answered(slack)
            assert "<\u200b!channel>" in refused["blocks"][0]["text"], "the words that were searched, and no call"
            await slack.message("<@UBOT> What does a new badge cost?", kind="app_mention")
            assert "twenty euros" in (await answered(slack))["blocks"][0]["text"]
            assert slack.calls.empty()

    running.call(journey(), 300)


def test_a_question_back_has_buttons(serve: Serve, settings_for: MakeSettings) -> None:
    retrieval: dict[str, object] = {"rerank": "never", "profile": {"ask_back": 0.0001, "answerable": 0}}

    running = serve(settings_for("none", retrieval=retrieval, plugins={"bots": BOT}))

    async def journey() -> None:
        async with bot(running.service) as slack:
            at = await slack.message("<@UBOT> Are tickets refunded?", kind="app_mention")
            question = await answered(slack)
            buttons = question["blocks"][-1]["elements"]
            (refunds,) = (button for button in buttons if button["text"]["text"] == "Travel expenses › Refunds")
            for _ in range(2):  # pressed twice, answered once
                await slack.press(refunds, at, question["ts"])
            assert "Train tickets are refunded" in (await answered(slack))["blocks"][0]["text"]
            assert slack.calls.empty()

    running.call(journey(), 300)


def test_a_person_is_offered_and_gets_the_thread_with_consent(serve: Serve, settings_for: MakeSettings) -> None:
    pytest.importorskip("plugins.handoff")
    desk: dict[str, object] = {"kind": "webhook", "address": "http://127.0.0.1:9/", "secret": "s"}
    running = serve(settings_for("none", plugins={"handoff": desk, "bots": BOT}))

    async def journey() -> None:
        async with bot(running.service) as slack:
            at = await slack.message("<@UBOT> How long is parental leave?", kind="app_mention")
            assert HAND_OVER not in str(await answered(slack))
            await slack.message("can I talk to a human?", thread=at)
            offer = await answered(slack)
            button = offer["blocks"][-1]["elements"][-1]
            assert button["confirm"]["text"]["text"] == CONSENT
            for words in ("Your conversation was passed on to a person.", "This conversation was handed over already."):
                await slack.press(button, at, offer["ts"])
                assert (await slack.call("chat.postEphemeral"))["text"] == words

    running.call(journey())
    (owner, content) = running.service.core.database.read_blocking(
        lambda connection: connection.exec_driver_sql("SELECT owner, content FROM handoffs").one()
    )
    assert owner == "slack:T1:UADA"
    assert "How long is parental leave?" in content
    assert "https://app.slack.com/client/T1/C1/thread/C1-" in content


def test_people_read_what_the_groups_may_and_a_refusal_is_told(serve: Serve, settings_for: MakeSettings) -> None:
    running = serve(settings_for("none", plugins={"bots": {"groups": ["others"]}}))
    threads = Threads(running.service)
    refused = running.call(threads.answer("slack:T1:C1:1", "slack:T1:UADA", "How long is parental leave?"))
    assert "No collection is granted" in refused.text
    assert running.call(threads.rate("slack:T1:C1:1", "t", "up")) == "This answer is not kept any more."
    assert "thread" in running.call(threads.hand_over("slack:T1:C1:1", "t", "nowhere"))


def test_a_bot_whose_connection_fails_is_begun_again_and_without_a_token_there_is_none(
    serve: Serve, settings_for: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Threads] = []

    async def fails(threads: Threads, _: BotSettings) -> None:
        begun.append(threads)
        if len(begun) == 3:
            raise asyncio.CancelledError
        raise OSError("no network")

    monkeypatch.setattr(slack_bot, "run", fails)
    monkeypatch.setattr("plugins.bots.threads.AGAIN_SECONDS", 0.0)
    without = serve(settings_for("none"))
    without.call(slack_bot.answer(without.service))
    without.stop()
    running = serve(settings_for("none", plugins={"bots": BOT}))
    with pytest.raises(CancelledError):
        running.call(slack_bot.answer(running.service))
    assert len(begun) == 3


def test_the_command_answers_until_it_is_stopped_and_names_the_token_it_needs(
    command_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    async def answers(threads: Threads, _: BotSettings) -> None:
        told.append((await threads.answer("slack:T1:C1:1", "slack:T1:UADA", "How long is parental leave?")).text)
        raise KeyboardInterrupt

    monkeypatch.setattr(slack_bot, "run", answers)
    for setting in ("LLM__MODEL", "REWRITER__KIND"):
        monkeypatch.setenv(f"ANAPHORA_{setting}", "none")
    monkeypatch.setenv("ANAPHORA_RETRIEVAL__RERANK", "never")
    missing = CliRunner().invoke(cli, ["bot", "slack"])
    assert (missing.exit_code, "plugins.bots.slack_bot_token" in missing.output) == (ExitCode.BAD_INPUT, True)
    monkeypatch.setenv("ANAPHORA_PLUGINS__BOTS__SLACK_BOT_TOKEN", BOT_TOKEN)
    done = CliRunner().invoke(cli, ["bot", "slack"])
    assert done.exit_code == 0, done.output
    assert "ten weeks" in told[0]


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
