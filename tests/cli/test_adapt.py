"""`anaphora adapt` from documents to a promoted run, and how it goes on after it was stopped."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cli import app
from evaluation.adaptation.gating import ThresholdPoint, best, standard_error
from evaluation.adaptation.measuring import MEASURES, Measured, judge
from evaluation.adaptation.questions import AnswerSpan, HeldOutQuestion, find, from_rules, ranking
from evaluation.adaptation.steps import AdaptationState
from index.query import Hit
from rewriter.conversation import Conversation, Message
from rewriter.errors import RecipeError
from rewriter.examples import RewriteExample

THINGS = ("passport", "parking permit", "library card", "fishing licence", "bus pass", "birth certificate",
          "market stall", "garden waste bin", "town archive", "swimming pool", "youth club", "repair shop")  # fmt: skip
RECIPE = """
name = "tiny"
[model]
base = "config:tiny"
vocabulary = 400
[[stage]]
name = "rows"
steps = 3
batch = 4
evaluate_every = 2
data = [{ path = "rows.jsonl" }]
"""


@pytest.fixture
def home(tmp_path: Path, model_home: Path) -> Path:
    """A home with the models of the tests."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "models").symlink_to(model_home / "models")
    (folder / "anaphora.toml").write_text('[retrieval]\nrerank = "never"\n[rewriter]\nkind = "none"\n', "utf-8")
    return folder


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """Twelve pages of a town, one a thing."""
    folder = tmp_path / "town"
    folder.mkdir()
    for thing in THINGS:
        (folder / f"{thing.replace(' ', '-')}.md").write_text(
            f"# The {thing}\n\n"
            f"You can apply for a {thing} at the town office. The {thing} costs eleven pounds a year. "
            f"Residents must renew the {thing} every two years by mail.\n\n"
            f"## Rules for the {thing}\n\n"
            f"The {thing} is valid for all residents of the town. The town office sends a letter before the {thing} "
            f"expires. If you lose the {thing}, you must report the loss to the police within three days.\n\n"
            f"You need a photograph and a signed form to get the {thing}. The form is available at the library.\n",
            "utf-8",
        )
    (tmp_path / "tiny.toml").write_text(RECIPE, "utf-8")
    return folder


def anaphora(home: Path, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["--home", str(home), *arguments])
    return result.exit_code, " ".join(result.output.split())


@pytest.mark.slow
def test_documents_become_a_measured_run_and_a_worthless_one_is_not_promoted(home: Path, documents: Path) -> None:
    recipe = str(documents.parent / "tiny.toml")
    arguments = ("adapt", str(documents), "--name", "town", "--recipe", recipe, "--pairs", "300", "--cpu")
    code, output = anaphora(home, *arguments, "--threads", "1", "--questions", "60")
    assert code == 0, output
    assert "fewer than 30 decide nothing" in output
    state = json.loads((home / "adapt" / "town" / "state.json").read_text("utf-8"))["done"]
    assert list(state) == ["index", "pairs", "train", "calibrate", "evaluate", "promote"]
    assert state["index"]["documents"] == 12
    assert state["pairs"]["train"] > state["pairs"]["held out"] > 0
    assert state["promote"] == {"promoted": "no"}
    assert {change["level"] for change in state["evaluate"]["changes"]} == {"passage", "document"}
    assert not (home / "rewriters" / "promoted.json").exists()
    trained, held = (
        {json.loads(line)["document"] for line in (home / "adapt/town/data" / name).read_text("utf-8").splitlines()}
        for name in ("train.jsonl", "held.jsonl")
    )
    assert not trained & held
    before = (home / "rewriters" / "town" / "rewriter.json").stat().st_mtime_ns
    code, output = anaphora(home, *arguments, "--threads", "1", "--questions", "60")
    assert code == 0, output
    assert (home / "rewriters" / "town" / "rewriter.json").stat().st_mtime_ns == before
    code, output = anaphora(home, *arguments, "--questions", "61")
    assert code == 3
    assert "begun with other questions" in output


def question(n: int, *, needs: bool, place: AnswerSpan = AnswerSpan("d", 0, 9)) -> HeldOutQuestion:  # noqa: B008  (frozen)
    history = (Message("user", "What is it?"), Message("assistant", "A thing."))
    example = RewriteExample(f"t{n}#3", history, "and then?", "and then, thing?" if needs else "and then?")
    return HeldOutQuestion(example, (place,), (place.document_id,))


def measured(asked: list[HeldOutQuestion], value: float, jitter: int) -> Measured:
    rng = random.Random(jitter)
    values = {one.example.id: dict.fromkeys(MEASURES, value + rng.uniform(-0.05, 0.05)) for one in asked}
    return Measured({"passage": values, "document": values}, 1.0, 2.0)


def merged(one: Measured, other: Measured) -> Measured:
    return Measured({level: one.values[level] | other.values[level] for level in ("passage", "document")}, 1.0, 2.0)


@pytest.mark.parametrize(
    ("follow", "alone", "promotes", "says"),
    [
        (0.6, 0.5, True, "no worse"),
        (0.5, 0.5, False, "do not surely improve"),
        (0.6, 0.4, False, "stand-alone get worse"),
        (0.4, 0.6, False, "do not surely improve"),
    ],
)
def test_only_better_follow_ups_at_no_cost_promote(follow: float, alone: float, promotes: bool, says: str) -> None:
    needing, standing = [question(n, needs=True) for n in range(60)], [question(n, needs=False) for n in range(60, 120)]
    before = measured(needing + standing, 0.5, 1)
    after = merged(measured(needing, follow, 2), measured(standing, alone, 3))
    verdict = judge(needing + standing, before, after)
    assert verdict.promote is promotes
    assert says in verdict.reason


def test_few_questions_decide_nothing() -> None:
    asked = [question(n, needs=True) for n in range(5)]
    verdict = judge(asked, measured(asked, 0.1, 1), measured(asked, 0.9, 1))
    assert not verdict.promote
    assert "too few" in verdict.reason


def test_a_threshold_leaves_the_runs_own_only_for_a_gain() -> None:
    flat = [ThresholdPoint(t / 20, 0.5 + (0.001 if t == 3 else 0), 0.5) for t in range(1, 20)]
    assert best(flat, 0.5).threshold == 0.5
    peaked = [ThresholdPoint(t / 20, 0.6 if t in (3, 4) else 0.5, 0.5, 0.05) for t in range(1, 20)]
    assert best(peaked, 0.5).threshold == 0.2
    unsure = [replace(point, error=0.11) for point in peaked]
    assert best(unsure, 0.5).threshold == 0.5


def test_the_error_of_a_gain_counts_conversations_and_not_questions() -> None:
    gains = np.array([0.2, 0.2, 0.0, 0.0, 0.0, 0.0])
    apart = standard_error(gains, ["a", "b", "c", "d", "e", "f"])
    assert apart == pytest.approx(float(np.std(gains, ddof=1)) / 6**0.5)
    assert standard_error(gains, ["a", "a", "c", "c", "e", "e"]) > apart
    assert standard_error(gains, ["a"] * 6) == float("inf")


def test_a_reply_is_found_behind_markup_and_a_yes() -> None:
    text = "Intro. The **bus pass** costs `eleven`\npounds a year, always."
    place = find("d", text, "Yes, the bus pass costs eleven pounds a year.")
    assert place is not None
    assert text[place.start : place.end] == "The **bus pass** costs `eleven`\npounds a year"
    assert find("d", text, "The bus pass costs twelve pounds a year") is None
    assert find("d", text, "The bus pass") is None


def test_rules_rows_are_asked_where_their_reply_is_known(tmp_path: Path) -> None:
    said = [{"role": "user", "text": "What is it?"}, {"role": "assistant", "text": "A pass for all buses of the town."}]
    reply = [{"role": "user", "text": "and the cost?"}, {"role": "assistant", "text": "It costs eleven pounds a year."}]
    rows = [
        {
            "id": "b-1#2",
            "history": said,
            "question": "and the cost?",
            "rewrite": "What does it cost?",
            "document": "d#part2",
        },
        {"id": "b-1#3", "history": said + reply, "question": "ok?", "rewrite": "ok?", "document": "d"},
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    (asked,) = from_rules(tmp_path / "rows.jsonl", lambda _: "Well. It costs eleven pounds a year.")
    assert asked.example.id == "b-1#2"
    assert asked.documents == ("d",)
    assert asked.conversation == Conversation(asked.example.history)
    assert not list(from_rules(tmp_path / "rows.jsonl", lambda _: ""))


def test_a_hit_counts_as_the_places_it_holds() -> None:
    from index.query import Passage

    def hit(key: str, document: str, start: int, end: int) -> Hit:
        passage = Passage(key, document, "", "x" * (end - start), "section", start, end)
        return Hit(passage, 1.0, {})

    asked = question(1, needs=True, place=AnswerSpan("d", 10, 20))
    hits = [hit("p1", "e", 10, 20), hit("p2", "d", 0, 10), hit("p3", "d", 15, 40), hit("p4", "d", 19, 25)]
    assert ranking(asked, hits) == ["p1", "p2", asked.places[0].id]


def test_a_state_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("{", "utf-8")
    with pytest.raises(RecipeError, match="Delete it to begin again"):
        AdaptationState(tmp_path, {})


def test_doing_a_step_again_undoes_the_later_ones(tmp_path: Path) -> None:
    progress = AdaptationState(tmp_path, {"a": 1})
    for step in ("index", "pairs", "train"):
        progress.finish(step, {"n": 1})
    progress.finish("pairs", {"n": 2})
    again = AdaptationState(tmp_path, {"a": 1})
    assert again.result("index") == {"n": 1}
    assert again.result("pairs") == {"n": 2}
    assert again.result("train") is None
