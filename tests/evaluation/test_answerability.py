"""`anaphora eval answerability`: questions over their own corpus and over another one, and models fitted on both."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli import app
from evaluation.reports import runs
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
    answered = tmp_path / "answers" / runs.slug("mtrag-offices") / "turns.jsonl"
    data.jsonl(answered, [turn("d1::1", "answered").row(), turn("d2::2", "refused").row()])
    command = ["eval", "answerability", "--data", str(tmp_path / "data"), "--sets", "mtrag-offices,mtrag-shops"]
    options = ["--answers", str(tmp_path / "answers"), "--weights", str(tmp_path / "weights.toml"), "--name", "one"]
    result = CliRunner().invoke(app, [*command, *options])
    assert result.exit_code == 0, result.output
    folder = home / "eval" / "runs" / "one"
    cases = [json.loads(line) for line in (folder / "cases.jsonl").read_text("utf-8").splitlines()]
    assert len(cases) == 12, "six questions over two corpora"
    assert {case["id"] for case in cases if case["answerable"]} == {
        *(f"{name}@mtrag-offices" for name in ("d1::1", "d1::2", "d2::1", "d2::3")), "s::1@mtrag-shops",
    }  # fmt: skip
    assert set(tomllib.loads((tmp_path / "weights.toml").read_text("utf-8"))) == {"base", "with_relevance"}
    measured = {(metric.level, metric.system) for metric in runs.read_run(folder).metrics}
    assert len(measured) == 4
    assert (folder / "marked-by-people.base.curve.jsonl").is_file()
    assert "Refusing below a threshold" in (folder / "report.html").read_text("utf-8")
    assert "the model alone" in result.output
