"""`anaphora synth` as it is typed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli import app
from cli.shared.error_handler import ExitCode
from synth.dialogs import read_dialogs
from synth.folder import SIDES, Folder
from synth.propositions import read_propositions

TEXT = "# Parking permit\n\nA parking permit costs $35 a year. You can order it online. It is not refundable.\n"

Call = Callable[..., Result]


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "permit.md").write_text(TEXT)
    return docs


@pytest.fixture
def anaphora(home: Path) -> Call:
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_dry_run_tells_requests_tokens_and_cost_and_writes_nothing(
    anaphora: Call, docs: Path, tmp_path: Path
) -> None:
    result = anaphora("synth", docs, "--out", tmp_path / "run", "--dry-run", "--prices", 1000, 2000)
    assert result.exit_code == 0, result.output
    assert "1 documents, 1 windows" in result.output
    assert [line.split()[0] for line in result.output.splitlines()[2:6]] == [
        "propositions",
        "dialog",
        "contextualise",
        "ground",
    ]
    assert "total " in result.output
    assert not (tmp_path / "run").exists()


def test_a_run_may_be_bounded_to_some_windows_of_each_document(anaphora: Call, tmp_path: Path) -> None:
    (tmp_path / "long.md").write_text("# Permits\n\n" + "A parking permit costs $35 a year. " * 200)
    run = ("synth", tmp_path / "long.md", "--out", tmp_path / "run", "--dry-run")
    assert "1 documents, 1 windows" not in anaphora(*run).output
    assert "1 documents, 1 windows" in anaphora(*run, "--windows", 1).output


def test_batch_files_go_out_and_come_back(anaphora: Call, docs: Path, tmp_path: Path) -> None:
    batch = tmp_path / "batch"
    run = ("synth", docs, "--out", tmp_path / "run", "--model", "big", "--batch", batch)
    result = anaphora(*run)
    assert "Wrote 1 requests" in result.output
    (row,) = map(json.loads, (batch / "requests.jsonl").read_text().splitlines())
    content = json.dumps({"propositions": ["A parking permit costs $35 a year."]})
    body = {"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}
    strange = {"custom_id": "f00-0", "response": {"body": body}}
    known = {"custom_id": row["custom_id"], "response": {"body": body}}
    (batch / "responses.jsonl").write_text(json.dumps(known) + "\n" + json.dumps(strange) + "\n")
    result = anaphora(*run)
    assert result.exit_code == 0, result.output
    assert "1 propositions from 1 documents" in result.output
    assert "1 responses answer nothing this run asks" in result.output
    assert "items of step `dialog` are open" in result.output


def test_batch_requests_need_a_models_name(anaphora: Call, docs: Path, tmp_path: Path) -> None:
    result = anaphora("synth", docs, "--out", tmp_path / "run", "--batch", tmp_path / "batch")
    assert result.exit_code == ExitCode.BAD_INPUT
    assert "--model" in result.output


def test_another_seed_on_a_run_is_told(anaphora: Call, docs: Path, tmp_path: Path) -> None:
    run = ("synth", docs, "--out", tmp_path / "run", "--model", "big", "--batch", tmp_path / "batch")
    folder = Folder(tmp_path / "run")
    anaphora(*run)
    (row,) = map(json.loads, (tmp_path / "batch" / "requests.jsonl").read_text().splitlines())
    content = json.dumps({"propositions": ["A parking permit costs $35 a year."]})
    body = {"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}
    answer = {"custom_id": row["custom_id"], "response": {"body": body}}
    (tmp_path / "batch" / "responses.jsonl").write_text(json.dumps(answer) + "\n")
    assert "was made with" not in anaphora(*run).output
    assert json.loads(folder.facts.read_text())["seed"] == 0
    journal = folder.journal.read_bytes()
    assert "was made with --seed 0" in " ".join(anaphora(*run, "--seed", 7).output.split())
    assert folder.journal.read_bytes() == journal


@pytest.mark.parametrize(("model", "warned"), [("smollm2-135m-instruct", True), ("http://127.0.0.1:1/v1", False)])
def test_a_model_too_small_for_dialogs_is_told_before_it_starts(
    anaphora: Call, docs: Path, tmp_path: Path, model: str, warned: bool
) -> None:
    run = ("synth", docs, "--out", tmp_path / "run", "--model", model, "--dry-run")
    assert ("too small for dialogs" in anaphora(*run).output) == warned
    assert "too small for dialogs" not in anaphora(*run, "--until", "propositions").output


def test_no_model_no_dialogs(anaphora: Call, docs: Path, tmp_path: Path) -> None:
    result = anaphora("synth", docs, "--out", tmp_path / "run", "--model", "none")
    assert result.exit_code == ExitCode.SETTINGS


@pytest.mark.extended
@pytest.mark.timeout(600)
def test_a_small_model_ends_with_valid_files_however_bad_its_text(
    anaphora: Call, docs: Path, tmp_path: Path, model_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SmolLM2-135M writes nonsense; the files it leaves are what they should be, and a second run asks nothing."""
    from server.registry import resolve

    monkeypatch.setenv("ANAPHORA_LLM__THREADS", "1")
    model = resolve("smollm2-135m-instruct", model_home)
    run = ("synth", docs, "--out", tmp_path / "run", "--model", model, "--list-size", 4)
    result = anaphora(*run)
    assert result.exit_code == 0, result.output
    folder = Folder(tmp_path / "run")
    texts = {json.loads(line)["_id"]: json.loads(line)["text"] for line in folder.documents.read_text().splitlines()}
    known = set()
    for one in read_propositions(folder.propositions):
        assert texts[one.document_id][one.start : one.end] == one.source
        known.add(one.id)
    for side in SIDES:
        for dialog in read_dialogs(folder.dialogs(side)):
            assert all(set(turn.relevant or ()) <= known for turn in dialog.questions())
    facts = json.loads(folder.facts.read_text())
    assert sum(facts["steps"]["propositions"]["verdicts"].values()) == 1
    assert facts["steps"]["propositions"]["tokens_out"] > 0

    journal = folder.journal.read_bytes()
    shutil.copy(folder.propositions, tmp_path / "before.jsonl")
    assert anaphora(*run).exit_code == 0
    assert folder.journal.read_bytes() == journal
    assert folder.propositions.read_bytes() == (tmp_path / "before.jsonl").read_bytes()
