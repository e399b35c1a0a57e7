"""`anaphora eval retrieval`: a chat's search measured on questions of one's own, kept in folders, with gates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli import app
from cli.shared.error_handler import ExitCode
from evaluation import run_folder
from evaluation.metrics import FULL_MEASURES, per_question, read_run
from evaluation.retrieval import SYSTEM
from papers.datasets import read_qrels
from tests.evaluation import evaluation_data as data


@pytest.fixture
def home(home: Path, tmp_path: Path) -> Path:
    """A home with the collection `mine`, and questions about it in `q.jsonl`."""
    data.product(tmp_path / "data")
    pages = str(tmp_path / "data" / "product_docs" / "desk")
    assert CliRunner().invoke(app, ["index", pages, "--collection", "mine"]).exit_code == 0
    return home


def retrieval(tmp_path: Path, *options: str) -> Result:
    questions = tmp_path / "data" / "product_dialogs" / "dialogs.dev.jsonl"
    words = ["eval", "retrieval", "--questions", str(questions), "--collection", "mine", "--rerank", "never"]
    return CliRunner().invoke(app, [*words, *options])


def test_a_run_holds_all_that_its_numbers_came_from(home: Path, tmp_path: Path) -> None:
    result = retrieval(tmp_path, "--name", "one", "--fail-under", "R@20=0.5")
    assert result.exit_code == 0, result.output
    run = run_folder.read_run(home / "eval" / "runs" / "one")
    assert run.description["kind"] == "retrieval"
    assert run.description["settings"]["retrieval"]["profile"]["depth"] == 100
    assert "api_key" not in json.dumps(run.description)
    assert str(home) not in json.dumps(run.description["settings"])
    assert run.notes == ("dialogs.dev: what 1 questions quote is in no passage; left out.",)
    assert {(m.level, m.n) for m in run.metrics if m.part == "all"} == {("passage", 2), ("document", 2)}
    assert [(latency.system, latency.n) for latency in run.latencies] == [(SYSTEM, 2)]
    for level in ("passage", "document"):
        folder = run.folder / "dialogs.dev"
        qrels, found = read_qrels(folder / f"{level}.qrels.tsv"), read_run(folder / SYSTEM / f"{level}.trec")
        ours = run.scores("dialogs.dev", SYSTEM, level)
        for question, values in per_question(found, qrels, FULL_MEASURES).items():
            assert ours[question] == pytest.approx(values, abs=1e-5)
    compared = CliRunner().invoke(app, ["eval", "compare", str(run.folder), str(run.folder)])
    assert compared.exit_code == 0, compared.output


def test_a_gate_that_is_not_reached_fails_the_command(home: Path, tmp_path: Path) -> None:
    failed = retrieval(tmp_path, "--name", "same", "--fail-under", "dialogs.dev/passage/*/all/R@20=1.01")
    assert failed.exit_code == ExitCode.GATE
    assert "below 1.01" in failed.output
    assert retrieval(tmp_path, "--fail-under", "nothing/*/*/*/AP=0").exit_code == ExitCode.BAD_INPUT
    assert retrieval(tmp_path, "--fail-under", "AP").exit_code == ExitCode.BAD_INPUT
    assert retrieval(tmp_path, "--name", "same").exit_code == ExitCode.STORAGE, "a name is used once"
