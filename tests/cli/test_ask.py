"""The chat in the terminal: what a person reads, types and stops."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli import app
from cli.ask import Transcript, parse_where
from cli.shared.console import SafeConsole
from cli.shared.error_handler import ExitCode
from cli.shared.state import InputError
from server.chat import EvidenceEvent, TokenEvent
from server.turn.events import Evidence
from tests.eventually import eventually
from tests.openai_server import FakeOpenAIServer
from tests.server.turn_fakes import evidence

PROGRAM = "from cli import main; main()"
Ask = Callable[..., Result]


@pytest.fixture
def home(command_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANAPHORA_RETRIEVAL__RERANK", "never")
    return command_home


@pytest.fixture
def ask(home: Path) -> Ask:
    def run(*options: str, typed: str = "") -> Result:
        return CliRunner().invoke(app, ["ask", *options], input=typed)

    return run


def test_one_question_is_answered_with_its_sources(ask: Ask, llm: FakeOpenAIServer) -> None:
    result = ask("--model", llm.url, "How long does parental leave last?")
    assert result.exit_code == 0, result.output
    assert "Parental leave lasts ten weeks. [1]\n" in result.stdout
    assert "[1] Parental leave › Length  leave.md" in result.stdout
    assert "    Parental leave lasts ten weeks." in result.stdout


def test_events_are_printed_as_json_for_programs(ask: Ask, llm: FakeOpenAIServer) -> None:
    result = ask("--model", llm.url, "How long does parental leave last?", "--json")
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert [event["type"] for event in events[:2]] == ["rewrite", "evidence"]
    assert events[-1]["type"] == "done"
    assert "".join(event["text"] for event in events if event["type"] == "token") == events[-1]["answer"]
    assert ask("--json").exit_code == ExitCode.BAD_INPUT


def test_a_conversation_carries_its_history(ask: Ask, llm: FakeOpenAIServer) -> None:
    typed = "How do I apply for parental leave?\nand by fax?\n/new\nand by fax?\n"
    result = ask("--model", llm.url, typed=typed)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("› and by fax?") == 2
    assert result.stdout.count("(with the previous answer") == 1
    said = [json.dumps(request["messages"]) for request in llm.answers]
    assert "How do I apply" in said[1]
    assert "How do I apply" not in said[2]


def test_a_question_back_is_answered_by_its_number(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = tmp_path / "profile.toml"
    profile.write_text("answerable = 0\nask_back = 0.0001\n", "utf-8")
    monkeypatch.setenv("ANAPHORA_RETRIEVAL__PROFILE", str(profile))
    asked = ask("--model", "none", "It was refused.")
    number = re.search(r"^(\d)\. Travel expenses › Refunds$", asked.stdout, re.MULTILINE)
    assert asked.exit_code == 0, asked.output
    assert number, asked.stdout
    assert "ask again and name one of these" in asked.stdout
    talk = ask("--model", "none", typed=f"It was refused.\n{number[1]}\n")
    assert talk.exit_code == 0, talk.output
    assert "type its number" in talk.stdout
    assert "searched for: It was refused (Travel expenses › Refunds)" in talk.stdout
    assert talk.stdout.count("asked back") == 1


def test_commands_show_sources_and_help(ask: Ask) -> None:
    typed = "\n".join(
        (
            "/sources",
            "How long does parental leave last?",
            "/sources",
            "/nonsense",
            "/help",
            "/quit",
            "never asked",
        )
    )
    result = ask("--model", "none", typed=typed)
    assert result.exit_code == 0, result.output
    parts = re.split(r"^› ", result.stdout, flags=re.MULTILINE)
    said = {part.split("\n", 1)[0]: part.split("\n", 1)[1] for part in parts[1:]}
    assert "There are no sources yet" in parts[1]
    assert "travel.md" in parts[3]
    assert "There is no /nonsense" in said["/nonsense"]
    assert "/sources" in said["/help"]
    assert "never asked" not in result.stdout


def test_a_model_that_cannot_be_reached_is_named(ask: Ask) -> None:
    result = ask("--model", "http://127.0.0.1:9/v1", "How long does parental leave last?")
    assert result.exit_code == ExitCode.LLM
    assert "http://127.0.0.1:9" in result.output
    assert "Traceback" not in result.output


def test_a_missing_collection_is_named(ask: Ask) -> None:
    result = ask("--model", "none", "--collection", "nowhere", "Anything?")
    assert result.exit_code == ExitCode.NOT_FOUND
    assert "nowhere" in result.output


@pytest.mark.extended
def test_an_interrupt_stops_the_answer_and_not_the_chat(home: Path, llm: FakeOpenAIServer) -> None:
    """In a pseudo-terminal, as a person would: Ctrl-C while the answer streams, then another question."""
    llm.pieces, llm.pace = ["Leave "] + ["and more "] * 2000, 0.05
    controller, terminal = pty.openpty()
    chat = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "ask", "--model", llm.url],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"},
        start_new_session=True,
    )
    os.close(terminal)
    seen = ""

    def wait_for(text: str, seconds: float = 120.0) -> None:
        nonlocal seen
        deadline = time.monotonic() + seconds
        poll = select.poll()
        poll.register(controller, select.POLLIN)
        while text not in seen:
            assert poll.poll(max(0.0, deadline - time.monotonic()) * 1000), f"no {text!r} in {seen!r}"
            seen += os.read(controller, 4096).decode("utf-8", "replace")

    try:
        wait_for("/help")
        wait_for("›")
        os.write(controller, b"How long does parental leave last?\r")
        wait_for("and more and more")
        os.killpg(chat.pid, signal.SIGINT)
        wait_for("(stopped)")
        assert llm.disconnected.wait(120)
        llm.pieces, llm.pace = ["Ten weeks. [1]"], 0.0
        # The new prompt may have been read together with the remark.
        seen = seen.partition("(stopped)")[2]
        wait_for("›")
        os.write(controller, b"How long is parental leave?\r")
        wait_for("Ten weeks.")

        def leave() -> bool:
            os.write(controller, b"\x04")  # Ctrl-D leaves once the prompt is there
            return chat.poll() is not None

        eventually(leave)
        assert chat.wait(1) == 0
    finally:
        chat.kill()
        chat.wait()
        os.close(controller)
    assert (home / "ask_history").read_text().count("+How long is parental leave?") == 1


def source(text: str = "0123456789", **changes: object) -> Evidence:
    values = {"title": "Title", "heading": ["Part"], "page": 3, "start": 10, "end": 20, **changes}
    return evidence(text)[0].model_copy(update=values)


def shown(*events: EvidenceEvent | TokenEvent) -> tuple[Transcript, StringIO]:
    out = StringIO()
    transcript = Transcript(SafeConsole(file=out, width=80, force_terminal=True, color_system="standard"))
    for event in events:
        transcript.show(event)
    return transcript, out


def test_hostile_texts_cannot_steer_the_terminal() -> None:
    poison = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\x9b1mred"
    passages = [source(poison, title=poison, heading=[poison], source=poison)]
    transcript, out = shown(
        EvidenceEvent(passages=passages, reranked=False, seconds=0.0), TokenEvent(text=f"Answer {poison}")
    )
    transcript.sources(everything=True)
    ours = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[hl]")
    left = ours.sub("", out.getvalue())
    assert "\x1b" not in left
    assert "\x07" not in left
    assert "\x9b" not in left
    assert "\u202e" not in left


def test_filters_are_read_as_values() -> None:
    assert parse_where(["domain=dmv", "year=2024", "draft=false", "kind=a,b", 'id="7"', "x=a=b"]) == {
        "domain": "dmv",
        "year": 2024,
        "draft": False,
        "kind": ["a", "b"],
        "id": "7",
        "x": "a=b",
    }
    for wrong in ("domain", "=x", "domain=", " = "):
        with pytest.raises(InputError, match="KEY=VALUE"):
            parse_where([wrong])


def test_a_question_is_an_argument_and_what_is_waited_for_is_said(ask: Ask) -> None:
    result = ask("--model", "none", "How long does parental leave last?")
    assert result.exit_code == 0, result.output
    assert "Parental leave lasts ten weeks." in result.stdout
    assert "Loading the models." in result.stderr
    assert "Asking docs." in result.stderr
    assert "sources." in result.stderr
    assert ask("").exit_code == ask(" ").exit_code == ExitCode.BAD_INPUT  # a script's variable may be empty


def test_a_refusal_has_an_exit_code_of_its_own(ask: Ask, llm: FakeOpenAIServer) -> None:
    llm.pieces = ("<cannot_answer>",)
    result = ask("--model", llm.url, "Which university did the mayor attend?")
    assert result.exit_code == ExitCode.REFUSED, result.output


def test_an_empty_home_is_looked_at_before_anything_is_fetched(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["--home", str(tmp_path / "empty"), "ask", "Anything?"])
    assert result.exit_code == ExitCode.NOT_FOUND
    assert "anaphora index" in result.stderr
    assert not (tmp_path / "empty" / "models").exists()


def test_an_unknown_setting_is_told_with_what_may_be_meant(tmp_path: Path) -> None:
    file = tmp_path / "anaphora.toml"
    file.write_text("[retrieval]\nevidense = 3\n")
    result = CliRunner().invoke(app, ["--config", str(file), "ask", "Anything?"])
    assert result.exit_code == ExitCode.SETTINGS
    assert "did you mean retrieval.evidence?" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("name", "meant"),
    [("ANAPHORA_LLM_MODEL", "ANAPHORA_LLM__MODEL"), ("ANAPHORA_SEVER__PORT", "ANAPHORA_SERVER__PORT")],
)
def test_an_unknown_variable_is_told_with_what_may_be_meant(
    name: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANAPHORA_PORT", "tcp://10.0.0.1:7860")  # as Kubernetes tells of a service
    assert CliRunner().invoke(app, ["config"]).exit_code == 0
    monkeypatch.setenv(name, "1")
    result = CliRunner().invoke(app, ["config"])
    assert result.exit_code == ExitCode.SETTINGS
    assert f"{name} is in the environment: there is no such setting; did you mean {meant}?" in " ".join(
        result.stderr.split()
    )
