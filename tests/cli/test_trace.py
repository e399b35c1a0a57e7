"""Traces in the terminal: listed, shown, compared, played again, kept as a case, exported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli import app
from tests.openai_server import FakeOpenAIServer

QUESTION = "How long does parental leave last?"


@pytest.fixture(autouse=True)
def home(command_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANAPHORA_RETRIEVAL__RERANK", "never")
    return command_home


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result.stdout


def read(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json"))


def test_a_turn_is_shown_compared_played_again_and_kept(llm: FakeOpenAIServer, tmp_path: Path) -> None:
    run("ask", "--model", llm.url, QUESTION)
    [listed] = read("trace", "list")
    turn = listed["turn_id"]
    shown = read("trace", "show", turn)
    calls = {call["name"]: call for call in shown["calls"]}

    assert listed["question"] == QUESTION
    assert shown["calls"][0]["parent"] is None
    assert all(call["parent"] in {one["id"] for one in shown["calls"]} for call in shown["calls"][1:])
    assert {"id", "parent", "name", "started", "seconds", "inputs", "output", "values", "prompt"} <= calls[
        "bm25"
    ].keys()
    sent = [message["content"] for message in llm.requests[-1]["messages"]]
    assert "".join(part.get("literal", part.get("value")) for part in calls["generate"]["prompt"]) == "".join(sent)
    assert "generate" in run("trace", "show", turn)
    assert run("trace", "show", turn[:8]) == run("trace", "show", turn)

    asked = len(llm.requests)
    assert [one for one in read("trace", "replay", turn) if one["status"] != "same"] == []
    assert {one["status"] for one in read("trace", "show", turn, turn)} == {"same"}
    assert len(llm.requests) == asked

    rows = tmp_path / "cases.jsonl"
    changed = read("trace", "replay", turn, "--model", llm.url, "--keep", str(rows), "--gold", "Ten weeks.")
    assert {one["path"] for one in changed if one["status"] != "same"} <= {"turn/generate"}
    assert len(llm.requests) > asked, "another model is asked anew"
    [case] = [json.loads(line) for line in rows.read_text().splitlines()]
    assert (case["text"], case["answer"], case["documents"]) == (QUESTION, "Ten weeks.", ["leave.md"])

    weighed = read("trace", "replay", turn, "--set", "retrieval.profile.depth=7")
    assert {one["path"] for one in weighed if one["status"] != "same"} <= {"turn/search", *(
        f"turn/search/{name}" for name in ("encode", "bm25", "dense", "fuse")
    )}  # fmt: skip


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    run("trace", "show", "nothing", code=4)
    run("trace", "replay", "nothing", "--set", "rubbish", code=3)
    run("trace", "replay", "nothing", "--set", "retrieval.rubbish=1", code=9)
