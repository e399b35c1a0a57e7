"""How likely an answer is, told from a search; and fitting that."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evaluation.answerability import Case, area, as_toml, cross_validated, curve, fit, joined
from index.query import Hit, Passage
from server.settings import RetrievalSettings, Settings
from server.turn.answerability import BASE, WITH_RELEVANCE, AnswerabilityModel, answerability, models, signals
from testing.chat_model import ScriptedChatModel
from tests.server.turn_playing import done, engine, play

ASKED = "How long does parental leave last?"


def hit(text: str, rank: int, relevance: float | None = None) -> Hit:
    passage = Passage(f"p{rank}", "d", "", text, "section", 0, len(text))
    return Hit(passage, 1 / rank, {"typed/bm25": rank, "typed/dense": rank}, relevance)


GOOD = [hit("Parental leave lasts ten weeks, however long it is asked for.", 1, 6.0), hit("Badges are blue.", 2, -9.0)]
BAD = [hit("Badges are blue.", 1, -9.0), hit("Taxi rides are refunded.", 2, -10.0)]


def test_a_search_that_found_the_words_is_likelier_to_answer() -> None:
    for good, bad in (
        (GOOD, BAD),
        ([replace(h, relevance=None) for h in GOOD], [replace(h, relevance=None) for h in BAD]),
    ):
        assert answerability(ASKED, good) > answerability(ASKED, bad)
    assert answerability(ASKED, []) == 0.0


def test_signals_stay_between_0_and_1_whatever_comes_in() -> None:
    for question in (ASKED, "", "the of and", "ß漢字🙂" * 50, "x" * 5000):
        for hits in (GOOD, BAD, [], [replace(GOOD[0], relevance=1e9)], [replace(GOOD[0], ranks={})]):
            found = signals(question, hits)
            assert all(0 <= value <= 1 for value in found.values()), found
            assert ("best relevance" in found) == any(one.relevance is not None for one in hits)


def test_the_packaged_weights_know_their_signals() -> None:
    assert {name: tuple(model.weights) for name, model in models().items()} == {
        "base": BASE,
        "with relevance": WITH_RELEVANCE,
    }


def cases(n: int = 200) -> list[Case]:
    chance = np.random.default_rng(4)
    made = []
    for i in range(n):
        answerable = bool(chance.random() < 0.8)
        told = {name: float(chance.random()) for name in BASE}
        told["best coverage"] = float(np.clip(chance.normal(0.7 if answerable else 0.35, 0.15), 0, 1))
        made.append(Case(f"q{i}", f"d{i // 4}", told, answerable))
    return made


def test_a_fit_finds_the_signal_that_tells() -> None:
    model = fit(cases(), BASE)
    assert max(model.weights, key=lambda name: abs(model.weights[name])) == "best coverage"
    told = cross_validated(cases(), BASE)
    assert area(told, [case.answerable for case in cases()]) > 0.85


def test_a_fitted_model_comes_back_from_its_file(tmp_path: Path) -> None:
    made = {"base": fit(cases(), BASE), "with relevance": AnswerabilityModel(0.5, {"a b": -1.25})}
    read = tomllib.loads(as_toml(made))
    assert AnswerabilityModel(read["base"]["bias"], read["base"]["weights"]) == made["base"]
    assert read["with_relevance"]["weights"] == {"a b": -1.25}


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


def test_a_threshold_adds_to_what_the_model_refuses() -> None:
    answerable = {"a@x": True, "b@x": False, "c@x": False, "d@x": True}
    made = [Case(name, "d", {}, own) for name, own in answerable.items()]
    made.append(Case("a@y", "d", {}, False, foreign=True))
    found = joined(made, [0.9, 0.1, 0.9, 0.2, 0.0], {"a": True, "b": False, "c": True, "d": False}, [0.15, 0.5])
    assert found == [("the model alone", 0.5, 0.5, 4), ("or p < 0.15", 1.0, 0.5, 4), ("or p < 0.50", 1.0, 1.0, 4)]


def test_below_the_threshold_no_model_is_asked() -> None:
    model = ScriptedChatModel(script=["Mr. Doe is the mayor [1]."])
    strict = Settings(retrieval=RetrievalSettings(answerable=0.9, rerank="never"))
    end = done(play(engine(model=model, settings=strict), "Which university did the mayor of Springfield attend?"))
    assert end.status == "refused"
    assert model.asked == []
    assert "2 passages" in end.answer


@pytest.mark.parametrize("threshold", [0.0, 0.05])
def test_above_the_threshold_the_model_answers(threshold: float) -> None:
    settings = Settings(retrieval=RetrievalSettings(answerable=threshold, rerank="never"))
    told = engine(["Parental leave lasts ten weeks [1]."], settings=settings)
    assert done(play(told, ASKED)).status == "answered"
