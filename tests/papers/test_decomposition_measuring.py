"""Recipes measured over trials: pools, splits, Fisher's test, and a run that asks nothing twice."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.shared.error_handler import ExitCode
from evaluation.questions import EvaluationError
from evaluation.run_folder import create_run
from papers.asking import SaidText
from papers.decomposition.__main__ import app
from papers.decomposition.base import NOT_MENTIONED, PACKAGE, RecipeTools
from papers.decomposition.measuring import is_right, measure, run_recipes
from papers.decomposition.trials import load_trials
from papers.decontextualization.measuring import RememberedAsker
from papers.measures import fisher
from server.settings import Settings
from tests.chat_model import ScriptedChatModel

GOLD = "In all, {n} of 40 participants of the study completed every session that was planned."
OTHER = "Participants of paper {n} were recruited in the town hall during the month of May."


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows: list[dict[str, Any]] = []
    for split, papers in (("iterate", "abcs"), ("validation", "xys"), ("test", "t")):
        for n, paper in enumerate(papers):
            common = {
                "document_id": f"{paper}.pdf",
                "experiment": f"yoga {paper}",
                "split": split,
                "classification_1": "",
            }
            gold = GOLD.format(n=f"{n}{paper}")
            rows += [
                {**common, "_id": f"{split}{n}", "question": "adherence", "answer": f"{n}{paper} of 40 completed.",
                 "quotes": [f"{gold} (quote_source: Table 2)", "(quote_source: Figure 1)"]},
                {**common, "_id": f"{split}{n}p", "question": "placebo", "answer": "A sugar pill",
                 "classification_1": "Placebo", "quotes": [OTHER.format(n=f"{split} {paper}")]},
            ]  # fmt: skip
    (tmp_path / "ice_gold").mkdir()
    (tmp_path / "ice_gold" / "gold_standards.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_pools_hold_the_papers_quotes_and_distractors_of_the_same_split(data: Path) -> None:
    trials, golds = load_trials(data, "adherence", "validation", 5)
    assert [one.question.dialog for one in trials] == ["x.pdf", "y.pdf", "s.pdf"]
    first = trials[0]
    assert first.gold == {1}
    assert first.pool[0].text == GOLD.format(n="0x"), "without its source"
    assert len(first.pool) == 5
    assert {one.document_id == "x.pdf" for one in first.pool[2:]} == {False}
    shown = " ".join(one.text for trial in trials for one in trial.pool)
    assert "iterate" not in shown
    assert "test" not in shown
    # The paper s is in both splits, and may not be shown as an example.
    assert {one.document_id for one in golds} == {"a.pdf", "b.pdf", "c.pdf"}
    assert load_trials(data, "placebo", "iterate", 4)[0][0].whether is True
    with pytest.raises(EvaluationError, match="no question of dose"):
        load_trials(data, "dose", "iterate", 4)


def test_answers_are_right_by_words_or_by_saying_nothing_rightly(data: Path) -> None:
    (trial, *_), _ = load_trials(data, "adherence", "iterate", 4)
    assert is_right(trial, "0a of 40 completed it")
    assert not is_right(trial, NOT_MENTIONED)
    (placebo, *_), _ = load_trials(data, "placebo", "iterate", 4)
    assert is_right(placebo, "Yes, a sugar pill.")
    assert not is_right(placebo, NOT_MENTIONED)


class Forced(RememberedAsker):
    """Knows how unlikely each excerpt makes it that nothing is mentioned; answers from what it is shown."""

    asked = 0

    async def say(self, prompt: str, parts: Any, tokens: int, system: str = "", **more: Any) -> SaidText:
        if more.get("force"):
            self.asked += 1
            own = parts["question"].partition("yoga ")[2][:1] + " of 40"
            answers = (own, "ten weeks", "7860", "four euros")
            return SaidText(NOT_MENTIONED, -3.0 if any(one in parts["excerpt"] for one in answers) else -1.0)
        return await super().say(prompt, parts, tokens, system, **more)


def test_a_run_measures_every_recipe_against_the_baseline_and_asks_nothing_twice(data: Path, tmp_path: Path) -> None:
    trials, golds = load_trials(data, "adherence", "iterate", 6)
    # The first ranking puts what answers last.
    ranked = [(trial, sorted(trial.pool, key=lambda one: one.n in trial.gold)) for trial in trials]
    model = ScriptedChatModel(
        script=lambda messages: (
            messages[-1].text.split("In all, ")[1].split("of 40")[0] + "of 40 completed."
            if "In all" in messages[-1].text
            else NOT_MENTIONED
        )
    )
    writer = create_run(tmp_path / "runs", "recipes", "one", resume=True)

    def run() -> Any:
        asker = Forced(model, writer.path("asked.jsonl"), package=PACKAGE)
        return asyncio.run(run_recipes(ranked, ["baseline", "perplexity"], RecipeTools(asker, golds), 6, writer))

    answers = run()
    asked = len(model.asked)
    again = run()
    assert len(model.asked) == asked
    assert [one["perplexity"].text for one in again] == [one["perplexity"].text for one in answers]
    assert f"from {math.exp(3):.3f} on, recall 1.000, precision 1.000" in writer.notes[1]
    calls = [json.loads(line) for line in writer.path("calls.jsonl").read_text("utf-8").splitlines()]
    assert [one["name"] for one in calls[1]["calls"][:2]] == ["perplexity", "perplexity"]
    measure(ranked, answers, 6, writer)
    run_read = writer.finish(Settings())
    means = {(one.level, one.system, one.measure): one.mean for one in run_read.metrics}
    assert means["passage", "perplexity", "recall"] > means["passage", "baseline", "recall"] == 0
    assert means["answer", "perplexity", "right"] == 1
    assert means["passage", "first 6", "recall lost"] == 0
    tested = {one.measure: one.p for one in run_read.tests}
    assert tested["right (Fisher)"] == pytest.approx(fisher((0, 4), (4, 4)))
    measure(ranked, answers, 2, short := create_run(tmp_path / "runs", "recipes", "two"))
    assert next(one.mean for one in short.metrics if one.measure == "recall lost") == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--split", "test"], "--final"),
        (["--split", "iterate", "--final"], "--final"),
        (["--recipes", "baseline,cake"], "no recipe 'cake'"),
        (["--model", "none"], "need a language model"),
        (["--task", "dose"], "adherence, placebo"),
    ],
)
def test_the_command_guards_the_test_split_and_says_what_it_needs(data: Path, options: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["measure", "--name", "x", "--data", str(data), *options])
    assert result.exit_code == ExitCode.BAD_INPUT
    assert said in " ".join(result.output.split())
