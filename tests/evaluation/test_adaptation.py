"""Adapting as a library: pairs, the verdict, and how an adaptation goes on after it was stopped."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from evaluation.adaptation import Adaptation, AdaptationPlan, AdaptationState
from evaluation.held_out import MEASURES, Measured, judge
from evaluation.questions import EvaluationError, Question
from rewriter.examples import RewriteExample, read_examples, write_examples
from rewriter.protocol import Conversation, Message, RecipeError, Rewriter
from server.turn.search import TurnSearch
from synth.folder import Folder


def question(n: int, *, needs: bool) -> Question:
    history = Conversation((Message("user", "What is it?"), Message("assistant", "A thing.")))
    rewrite = "and then, thing?" if needs else "and then?"
    return Question(id=f"t{n}#3", dialog=f"t{n}", text="and then?", conversation=history, rewrite=rewrite)


def measured(asked: list[Question], value: float, jitter: int) -> Measured:
    rng = random.Random(jitter)
    values = {one.id: dict.fromkeys(MEASURES, value + rng.uniform(-0.05, 0.05)) for one in asked}
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


def test_doing_a_step_again_undoes_the_later_ones(tmp_path: Path) -> None:
    progress = AdaptationState(tmp_path, {"a": 1})
    for step in ("index", "pairs", "train"):
        progress.finish(step, {"n": 1})
    progress.finish("pairs", {"n": 2})
    again = AdaptationState(tmp_path, {"a": 1})
    assert again.result("index") == {"n": 1}
    assert again.result("pairs") == {"n": 2}
    assert again.result("train") is None


@dataclass
class FakeTools:
    """Notes what it is asked to do; trains nothing but a description."""

    writes_dialogs: bool = False
    done: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    failing: bool = False

    def index(self) -> tuple[int, int]:
        self.done.append("index")
        return 3, 7

    def write_dialogs(self, folder: Folder) -> None:
        self.done.append("dialogs")

    def train(self, recipe: str, data: Path, part: str, run: Path) -> None:
        self.done.append("train")
        if self.failing:
            raise OSError("the power went out")
        run.mkdir(parents=True, exist_ok=True)
        (run / "rewriter.json").write_text('{"family": "terms", "format": 1}', "utf-8")

    def serving(self) -> Rewriter:
        raise AssertionError("nothing is measured")

    def searching(self, rewriter: Rewriter) -> AbstractContextManager[TurnSearch]:
        raise AssertionError("nothing is measured")

    def counting(self, doing: str, total: int) -> AbstractContextManager[Callable[[], None]]:
        return nullcontext(lambda: None)

    def say(self, text: str) -> None:
        self.said.append(text)


def rows(folder: Path) -> Path:
    path = folder / "rows.jsonl"
    asked = [question(n, needs=True) for n in range(4)]
    write_examples(path, [RewriteExample(q.id, q.conversation.messages, q.text, q.rewrite) for q in asked])
    return path


def test_without_dialogs_rows_or_a_model_it_says_what_to_give(tmp_path: Path) -> None:
    tools = FakeTools()
    with pytest.raises(EvaluationError, match=r"--model .* --dialogs, .* --also"):
        Adaptation(tmp_path, AdaptationPlan("town", (), "terms"), tools).run()
    assert not tools.done


def test_rows_alone_are_trained_on_and_never_promoted(tmp_path: Path) -> None:
    tools = FakeTools()
    plan = AdaptationPlan("town", (), "terms", also=(rows(tmp_path),))
    assert Adaptation(tmp_path, plan, tools).run() is None
    assert tools.done == ["index", "train"]
    assert "nothing to measure on" in tools.said[-1]
    assert len(list(read_examples(tmp_path / "adapt/town/data/train.jsonl"))) == 4
    assert not (tmp_path / "rewriters" / "promoted.json").exists()


def test_what_was_stopped_goes_on_with_the_step_it_was_in(tmp_path: Path) -> None:
    plan = AdaptationPlan("town", (), "terms", also=(rows(tmp_path),))
    with pytest.raises(OSError, match="power"):
        Adaptation(tmp_path, plan, FakeTools(failing=True)).run()
    tools = FakeTools()
    Adaptation(tmp_path, plan, tools).run()
    assert tools.done == ["train"]
    with pytest.raises(RecipeError, match="begun with other recipe"):
        Adaptation(tmp_path, replace(plan, recipe="flan"), tools)


def test_an_adaptation_may_search_a_collection_of_another_name() -> None:
    own, other = AdaptationPlan("town", (), "terms"), AdaptationPlan("town", (), "terms", collection="docs")
    assert (own.searched, other.searched) == ("town", "docs")
    assert (own.wanted()["collection"], other.wanted()["collection"]) == ("", "docs")
