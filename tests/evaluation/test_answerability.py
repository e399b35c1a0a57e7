"""`anaphora eval answerability`: questions over their own corpus and over another one, and models fitted on both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli import app
from evaluation.reports import run_folder
from server.turn.decision import READ_TOO
from tests.evaluation import evaluation_data as data
from tests.evaluation.test_answers import turn


@pytest.fixture
def home(model_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with models, beside two domains: `offices`, and `shops` with a question and a passage of its own."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "models").symlink_to(model_home / "models")
    monkeypatch.setenv("ANAPHORA_HOME", str(home))
    folder = tmp_path / "data"
    data.mtrag(folder)
    folder = folder / "mtrag"
    data.jsonl(folder / "shops" / "corpus.jsonl", [{"_id": "s1", "title": "Shop", "text": "Shoes are exchanged at 9."}])
    data.qrels(folder / "shops" / "qrels.tsv", [("s::1", "s1")])
    asked = {"role": "user", "turn_id": "s::1", "text": "When are shoes exchanged?", "rewrite": "", "relevant": ["s1"]}
    asked["answerability"] = ["ANSWERABLE"]
    shop = {"dialog_id": "s", "collection": "shops", "turns": [asked, {"role": "assistant", "text": "At 9."}]}
    data.jsonl(folder / "dialogs.jsonl", [*data.DIALOGS, shop])
    return home


def test_models_are_fitted_on_own_and_foreign_questions(home: Path, tmp_path: Path) -> None:
    answered = tmp_path / "answers" / run_folder.slug("mtrag-offices") / "turns.jsonl"
    data.jsonl(answered, [turn("d1::1", "answered").row(), turn("d2::2", "refused").row()])
    command = ["eval", "answerability", "--data", str(tmp_path / "data"), "--sets", "mtrag-offices,mtrag-shops"]
    fitted = tmp_path / "decision.json"
    options = ["--answers", str(tmp_path / "answers"), "--fit", str(fitted), "--name", "one", "--foreign", "1"]
    result = CliRunner().invoke(app, [*command, *options])
    assert result.exit_code == 0, result.output
    folder = home / "eval" / "runs" / "one"
    cases = [json.loads(line) for line in (folder / "cases.jsonl").read_text("utf-8").splitlines()]
    assert len(cases) == 12, "six questions over two corpora"
    assert {case["id"] for case in cases if case["right"] == "answer"} == {
        *(f"{name}@mtrag-offices" for name in ("d1::1", "d1::2", "d2::1", "d2::3")), "s::1@mtrag-shops",
    }  # fmt: skip
    whole = json.loads(fitted.read_text("utf-8"))
    assert set(whole["models"]) == {"read", "unread"}
    assert whole["recipe"]["cases"] == {"answer": 5, "ask": 0, "refuse": 7}
    measured = {(metric.level, metric.system, metric.measure) for metric in run_folder.read_run(folder).metrics}
    assert ("asked to another corpus", "unread", "AUC") in measured
    assert ("either", "read", "ECE") in measured
    assert (folder / "unanswerable.unread.curve.jsonl").is_file()
    assert "Refusing, or asking back" in (folder / "report.html").read_text("utf-8")
    assert "the model alone" in result.output


def test_what_has_been_searched_is_not_searched_again(home: Path, tmp_path: Path) -> None:
    """And without --fit the packaged models are judged."""
    command = ["eval", "answerability", "--data", str(tmp_path / "data"), "--sets", "mtrag-offices", "--name", "two"]
    kept = home / "eval" / "runs" / "two" / "cases.jsonl"
    kept.parent.mkdir(parents=True)
    known = {"id": "d1::1@mtrag-offices", "dialog": "known", "signals": dict.fromkeys(READ_TOO, 0.5), "right": "answer"}
    data.jsonl(kept, [known])
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    cases = [json.loads(line) for line in kept.read_text("utf-8").splitlines()]
    assert [case["dialog"] for case in cases].count("known") == 1
    assert len({case["id"] for case in cases}) == len(cases) == 5
    assert "AUC" in result.output
