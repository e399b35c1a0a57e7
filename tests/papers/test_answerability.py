"""Fitting the decision to answer, ask back or refuse, on made-up cases, and collecting cases from a small set."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from evaluation.run_folder import read_run
from papers.answerability.__main__ import app
from papers.answerability.collecting import RIGHT, Case, Kind
from papers.answerability.fitting import cross_validated, fit
from papers.measures import area, calibration_error
from server.turn.decision import BASE
from tests.evaluation import evaluation_data as data


def cases(n: int = 400) -> list[Case]:
    """Coverage tells what was not found, few words and the first dimension of the vector what must be asked back."""
    chance = np.random.default_rng(4)
    kinds: list[Kind] = ["found", "underspecified", "unanswerable", "missed", "left out"]
    made = []
    for i in range(n):
        kind = kinds[int(chance.choice(5, p=[0.6, 0.1, 0.1, 0.1, 0.1]))]
        told = {name: float(chance.random()) for name in BASE}
        told["best coverage"] = float(np.clip(chance.normal(0.35 if RIGHT[kind] == "refuse" else 0.7, 0.15), 0, 1))
        told["words"] = float(np.clip(chance.normal(0.1 if RIGHT[kind] == "ask" else 0.6, 0.15), 0, 1))
        # A signal of support that speaks against an answer by accident.
        told["agreement"] = float(np.clip(chance.normal(0.3 if kind == "found" else 0.6, 0.2), 0, 1))
        first = float(chance.normal(0.9 if RIGHT[kind] == "ask" else -0.5, 0.1))
        vector = [first, *chance.normal(0, 0.2, 3).tolist()]
        made.append(Case(f"q{i}", f"s{i % 4}", f"d{i // 4}", kind, {}, told, vector))
    return made


def test_a_fit_finds_the_signals_that_tell() -> None:
    made = cases()
    model = fit(made, "unread")
    assert min(model.weights["refuse"], key=lambda name: model.weights["refuse"][name]) == "best coverage"
    assert min(model.weights["ask"], key=lambda name: model.weights["ask"][name]) == "words"
    assert not model.question
    told = cross_validated("unread", made)
    truth = [case.right == "answer" for case in made]
    assert area([one.answer for one in told], truth) > 0.85
    assert calibration_error([one.answer for one in told], truth, [1.0] * len(made)) < 0.12


def test_calibration_is_by_weight() -> None:
    assert calibration_error([0.8, 0.8], [True, False], [4.0, 1.0]) == pytest.approx(0.0)
    assert calibration_error([1.0, 0.0], [False, True], [1.0, 1.0]) == 1.0


@pytest.fixture
def home(home: Path, tmp_path: Path) -> Path:
    """A home with models, beside two domains: `offices`, and `shops` with a question and a passage of its own."""
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


def test_models_are_fitted_and_judged_on_searches_with_and_without_evidence(home: Path, tmp_path: Path) -> None:
    shared = ["--data", str(tmp_path / "data"), "--sets", "mtrag-offices,mtrag-shops", "--split", "dev"]
    fitted = tmp_path / "decision.json"
    result = CliRunner().invoke(app, ["fit", str(fitted), *shared, "--name", "one"])
    assert result.exit_code == 0, result.output
    folder = home / "eval" / "runs" / "one"
    lines = (folder / "cases.jsonl").read_text("utf-8").splitlines()
    by_id = {case["id"]: case for case in map(json.loads, lines)}
    assert by_id["s::1"]["kind"] == "found"
    assert by_id["s::1 left out"]["kind"] == "left out"
    assert by_id["s::1 left out"]["unread"]["best coverage"] < by_id["s::1"]["unread"]["best coverage"]
    assert all(len(case["vector"]) == 384 for case in by_id.values())
    assert {case["kind"] for case in by_id.values()} >= {"found", "left out", "unanswerable"}
    whole = json.loads(fitted.read_text("utf-8"))
    assert set(whole["models"]) == {"read with question", "read", "unread with question", "unread"}
    measured = {(metric.level, metric.system, metric.measure) for metric in read_run(folder).metrics}
    assert ("left out", "unread", "AUC") in measured
    assert ("all", "read with question", "ECE") in measured
    assert ("found", "read", "refused") in measured
    judged = CliRunner().invoke(app, ["measure", *shared, "--name", "two"])
    assert judged.exit_code == 0, judged.output
    assert (home / "eval" / "runs" / "two" / "cases.jsonl").read_text("utf-8").splitlines() == lines
    assert "right at 2% false" in judged.output
