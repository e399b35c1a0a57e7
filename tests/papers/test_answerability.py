"""Fitting the decision to answer, ask back or refuse, on made-up cases."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from evaluation.questions import Question
from evaluation.run_folder import read_run, slug
from papers.answerability.__main__ import app
from papers.answerability.fitting import (
    Case,
    as_json,
    cross_validated,
    curve,
    drawn,
    fit,
    joined,
    read_cases,
    recipe,
)
from papers.measures import area, calibration_error
from server.turn.decision import BASE, MONOTONE, DecisionModel, Outcome
from tests.evaluation import evaluation_data as data
from tests.evaluation.test_answers import turn


def cases(n: int = 400) -> list[Case]:
    """Coverage tells what is unanswerable, and few words what must be asked back."""
    chance = np.random.default_rng(4)
    made = []
    for i in range(n):
        kinds: list[Outcome] = ["answer", "ask", "refuse"]
        right = kinds[int(chance.choice(3, p=[0.7, 0.1, 0.2]))]
        told = {name: float(chance.random()) for name in BASE}
        told["best coverage"] = float(np.clip(chance.normal(0.35 if right == "refuse" else 0.7, 0.15), 0, 1))
        told["words"] = float(np.clip(chance.normal(0.1 if right == "ask" else 0.6, 0.15), 0, 1))
        # A signal of support that speaks against an answer by accident.
        told["agreement"] = float(np.clip(chance.normal(0.3 if right == "answer" else 0.6, 0.2), 0, 1))
        made.append(Case(f"q{i}", f"d{i // 4}", told, right))
    return made


def test_a_fit_finds_the_signals_that_tell() -> None:
    made = cases()
    model = fit(made, BASE)
    assert min(model.weights["refuse"], key=lambda name: model.weights["refuse"][name]) == "best coverage"
    assert min(model.weights["ask"], key=lambda name: model.weights["ask"][name]) == "words"
    told = cross_validated(made, BASE)
    truth = [case.right == "answer" for case in made]
    assert area([one.answer for one in told], truth) > 0.85
    assert calibration_error([one.answer for one in told], truth, [1.0] * len(made)) < 0.12


def test_support_never_counts_against_an_answer_whatever_the_cases_say() -> None:
    model = fit(cases(), BASE)
    assert all(weights[name] <= 0 for weights in model.weights.values() for name in MONOTONE & set(BASE))


def test_a_case_counts_for_those_that_were_left_out() -> None:
    """Twice each answerable case, or each with twice the weight, is the same fit."""
    made = cases(120)
    answered = [case for case in made if case.right == "answer"]
    heavy = [replace(case, weight=2.0) if case.right == "answer" else case for case in made]
    one, other = fit(heavy, BASE), fit([*made, *answered], BASE)
    for case in made[:20]:
        assert one.chances(case.signals).answer == pytest.approx(other.chances(case.signals).answer, abs=0.002)


def test_a_fitted_model_comes_back_from_its_file(tmp_path: Path) -> None:
    made = fit(cases(), BASE)
    whole = json.loads(as_json({"unread": made}, recipe(cases(), ["product-uv"], "train")))
    assert DecisionModel(**whole["models"]["unread"]) == made
    assert whole["recipe"]["sets"] == ["product-uv"]
    assert sum(whole["recipe"]["cases"].values()) == 400
    kept = tmp_path / "cases.jsonl"
    kept.write_text('{"id": "a", "dialog": "d", "signals": {"x": 1.0}, "right": "ask"}\n')
    assert list(read_cases(kept)) == [Case("a", "d", {"x": 1.0}, "ask")]


def test_calibration_is_by_weight() -> None:
    assert calibration_error([0.8, 0.8], [True, False], [4.0, 1.0]) == pytest.approx(0.0)
    assert calibration_error([1.0, 0.0], [False, True], [1.0, 1.0]) == 1.0


def test_the_curve_runs_from_refusing_nobody_to_refusing_everybody() -> None:
    told, truth = [0.1, 0.2, 0.8, 0.9], [False, True, False, True]
    places = curve(told, truth)
    assert (places[0].recall, places[0].false_refusals, places[0].precision) == (0, 0, 1)
    assert (places[-1].recall, places[-1].false_refusals, places[-1].precision) == (1, 1, 0.5)
    assert [place.recall for place in places] == sorted(place.recall for place in places)
    middle = next(place for place in places if 0.1 < place.threshold < 0.2)
    assert (middle.precision, middle.recall, middle.false_refusals) == pytest.approx((1, 0.5, 0))
    assert area(told, truth) == 0.75
    assert area([0.5], [True]) == 0.5


def test_a_threshold_adds_to_what_the_model_refuses_or_stands_alone() -> None:
    right: dict[str, Outcome] = {"a@x": "answer", "b@x": "refuse", "c@x": "refuse", "d@x": "answer"}
    made = [Case(name, "d", {}, own) for name, own in right.items()]
    made.append(Case("a@y", "d", {}, "refuse", foreign=True))
    found = joined(made, [0.9, 0.1, 0.9, 0.2, 0.0], {"a": True, "b": False, "c": True, "d": False}, [0.15, 0.5])
    assert found == [
        ("the model alone", 0.5, 0.5, 4),
        ("or p < 0.15", 1.0, 0.5, 4),
        ("p < 0.15", 0.5, 0.0, 4),
        ("or p < 0.50", 1.0, 1.0, 4),
        ("p < 0.50", 0.5, 0.5, 4),
    ]


def test_a_share_of_the_answerable_questions_is_drawn_alike_each_time() -> None:
    marks = ("answerable", "unanswerable", "partial", "")
    questions = [Question(f"q{n}", "d", "?", answerability=marks[n % 4]) for n in range(400)]
    chosen = drawn(questions, 0.2)
    assert chosen == drawn(questions, 0.2)
    assert [sum(one.answerability == mark for one in chosen) for mark in marks[1:]] == [100, 100, 100]
    assert drawn(questions, 1) == questions


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
    answered = tmp_path / "answers" / slug("mtrag-offices") / "turns.jsonl"
    data.jsonl(answered, [asdict(turn("d1::1", "answered")), asdict(turn("d2::2", "refused"))])
    command = ["measure", "--data", str(tmp_path / "data"), "--sets", "mtrag-offices,mtrag-shops"]
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
    measured = {(metric.level, metric.system, metric.measure) for metric in read_run(folder).metrics}
    assert ("asked to another corpus", "unread", "AUC") in measured
    assert ("either", "read", "ECE") in measured
    assert (folder / "unanswerable.unread.curve.jsonl").is_file()
    assert "Refusing, or asking back" in (folder / "report.html").read_text("utf-8")
    assert "the model alone" in result.output
