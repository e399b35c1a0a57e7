"""Fitting the sentence head on made-up cases."""

from __future__ import annotations

import numpy as np

from papers.answerability.collecting import Case as Decision
from papers.sentence_selection import fitting
from papers.sentence_selection.cases import Case
from server.turn.decision import KINDS
from server.turn.evidence import FEATURES, SentenceHead, SentenceInputs, packaged_head
from tests.server.turn_fakes import evidence

WIDTH = 8


def made(n: int, domain: str) -> list[Case]:
    """The marked sentence is the one whose first state is large; in one case of three there is none."""
    chance = np.random.default_rng(n)
    texts = ["One says this. Two says that. Three is last.", "Four begins here. Five goes on."]
    passages = tuple(evidence(*texts))
    places = [
        (p.n, p.start + p.text.index(word))
        for p, word in zip(passages[:1] * 3 + passages[1:] * 2, ("One", "Two", "Three", "Four", "Five"), strict=True)
    ]
    ends = [place[1] + 10 for place in places]
    found = []
    for number in range(n):
        states = chance.normal(size=(5, WIDTH)).astype(np.float32)
        gold = np.zeros(5, dtype=np.bool_)
        answerable = number % 3 > 0
        states[:, 0] = -2
        if answerable:
            which = int(chance.integers(5))
            gold[which], states[which, 0] = True, 4
        features = np.zeros((5, len(FEATURES)), dtype=np.float32)
        quotes = tuple((f"d{places[i][0]}.md", places[i][1], ends[i]) for i in np.flatnonzero(gold))
        inputs = SentenceInputs(places, features, states)
        name = f"{domain}{number}"
        # Questions that have an answer are long.
        told = dict.fromkeys(KINDS["read"], 0.0) | {"length": float(answerable)}
        decision = Decision(name, domain, name, "found" if answerable else "unanswerable", told, {}, [1.0, 0.0])
        found.append(Case(name, domain, answerable, "which?", "which?", passages, quotes, inputs, gold, decision))
    return found


def test_a_fit_finds_the_state_that_tells_and_what_has_no_answer() -> None:
    every = [*made(90, "a"), *made(60, "b")]
    found = fitting.cross_validated(every, fitting.HeadRecipe(epochs=30, dropout=0.1), folds=2)

    assert {one.case.id for one in found} == {case.id for case in every}
    answerable = [one for one in found if one.case.answerable]
    assert np.mean([one.shown for one in answerable]) > 0.9
    least = fitting.threshold(found, 0.1)
    assert 0 < least < 1
    assert np.mean([one.chance >= least for one in found if not one.case.answerable]) <= 0.1
    assert np.mean([one.chance >= least for one in answerable]) > 0.8
    [row] = fitting.table(found, [least])
    assert len(row) == len(fitting.HEAD)


def test_what_is_packaged_says_what_torch_says() -> None:
    import torch

    model = fitting.fitted(made(30, "a"), fitting.HeadRecipe(epochs=2))
    case = made(1, "b")[0]
    with torch.no_grad():
        logits = model(torch.from_numpy(case.inputs.features), torch.from_numpy(case.inputs.states)).numpy()
    powers = np.exp(logits) / (1 + np.exp(logits).sum())
    told = SentenceHead(fitting.as_served(model)).chances(case.inputs)
    assert np.allclose(list(told.values()), powers, atol=0.01)


def test_the_packaged_head_has_the_form_that_is_fitted() -> None:
    weights = packaged_head().weights
    form = fitting.HeadModule(weights["states.weight"].shape[1], fitting.HeadRecipe()).weights()
    assert {name: value.shape for name, value in weights.items()} == {n: value.shape for n, value in form.items()}
