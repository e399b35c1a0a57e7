"""Fitting the answerability of `server.turn.answerability`, and its precision and recall over thresholds.

Questions people marked as unanswerable are few, so a second kind is added: questions of one corpus asked to
another, which cannot answer them. The two are always shown apart, because the second is the easier. All curves
are cross-validated: no question is judged by a model that saw a question of its conversation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from server.turn.answerability import BASE, WITH_RELEVANCE, AnswerabilityModel

FOLDS = 5
RIDGE = 0.02
SEED = 5

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Case:
    """Signals of one question's search. `foreign`: asked to another corpus than its own."""

    id: str
    dialog: str
    signals: Mapping[str, float]
    answerable: bool
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """What refusing below a threshold would do; refusing an unanswerable question counts as right."""

    threshold: float
    precision: float
    recall: float
    false_refusals: float
    """Share of answerable questions refused."""


def fit(cases: Sequence[Case], names: Sequence[str]) -> AnswerabilityModel:
    """Logistic regression, both classes weighing the same, weights held small."""
    from sklearn.linear_model import LogisticRegression

    raw, y = _matrix(cases, names), np.array([case.answerable for case in cases])
    mean, spread = raw.mean(axis=0), raw.std(axis=0) + 1e-9
    model = LogisticRegression(C=1 / (RIDGE * len(y)), class_weight="balanced", solver="newton-cholesky", tol=1e-8)
    model.fit((raw - mean) / spread, y)
    slopes = model.coef_[0] / spread
    return AnswerabilityModel(
        round(float(model.intercept_[0] - slopes @ mean), 4),
        {n: round(float(s), 4) for n, s in zip(names, slopes, strict=True)},
    )


def cross_validated(cases: Sequence[Case], names: Sequence[str]) -> list[float]:
    """The probability of every case by a model fitted on the conversations of other folds."""
    dialogs = sorted({case.dialog for case in cases})
    order = np.random.default_rng(SEED).permutation(len(dialogs))
    fold = {dialogs[place]: rank % FOLDS for rank, place in enumerate(order)}
    found = [0.5] * len(cases)
    for one in range(FOLDS):
        others = [case for case in cases if fold[case.dialog] != one]
        if len({case.answerable for case in others}) < 2:
            continue
        model = fit(others, names)
        for place, case in enumerate(cases):
            if fold[case.dialog] == one:
                found[place] = model.probability(case.signals)
    return found


def curve(probabilities: Sequence[float], answerable: Sequence[bool]) -> list[OperatingPoint]:
    """Every threshold that changes something, from refusing nobody to refusing everybody."""
    places = []
    unanswerable = sum(not own for own in answerable)
    for threshold in (0.0, *sorted({round(p, 3) + 0.001 for p in probabilities})):
        refused = [not own for p, own in zip(probabilities, answerable, strict=True) if p < threshold]
        right = sum(refused)
        places.append(
            OperatingPoint(
                threshold,
                right / len(refused) if refused else 1.0,
                right / max(1, unanswerable),
                (len(refused) - right) / max(1, len(answerable) - unanswerable),
            )
        )
    return places


def area(probabilities: Sequence[float], answerable: Sequence[bool]) -> float:
    """Area under the ROC curve: the chance that an answerable question gets the higher probability."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(answerable, probabilities)) if len(set(answerable)) == 2 else 0.5


def joined(
    cases: Sequence[Case], probabilities: Sequence[float], refused: Mapping[str, bool], thresholds: Sequence[float]
) -> list[tuple[str, float, float, int]]:
    """What a model's own refusals come to together with refusing below a threshold.

    `refused` says by question whether the model refused. For no threshold and for each: its name, the share of
    unanswerable questions refused, the share of answerable ones, and how many questions there were. Foreign
    cases are left out, since no model was asked.
    """
    known = [
        (refused[case.id.rpartition("@")[0]], p, case.answerable)
        for case, p in zip(cases, probabilities, strict=True)
        if not case.foreign and case.id.rpartition("@")[0] in refused
    ]
    found = []
    for name, threshold in (("the model alone", 0.0), *((f"or p < {one:.2f}", one) for one in thresholds)):
        sides: dict[bool, list[bool]] = {True: [], False: []}
        for by_model, p, answerable in known:
            sides[answerable].append(by_model or p < threshold)
        rates = [sum(side) / max(1, len(side)) for side in (sides[False], sides[True])]
        found.append((name, rates[0], rates[1], len(known)))
    return found


def as_toml(models: Mapping[str, AnswerabilityModel]) -> str:
    """The fitted models as the file `server.turn.answerability` reads."""
    lines = ["# Fitted by `anaphora eval answerability`; what the signals mean stands in answerability.py."]
    for name, model in models.items():
        table = name.replace(" ", "_")
        lines += ["", f"[{table}]", f"bias = {model.bias}", "", f"[{table}.weights]"]
        lines += [f'"{signal}" = {weight}' for signal, weight in model.weights.items()]
    return "\n".join(lines) + "\n"


KINDS = {"base": BASE, "with relevance": WITH_RELEVANCE}
"""The models that are fitted, and their signals."""


def _matrix(cases: Sequence[Case], names: Sequence[str]) -> Numbers:
    return np.array([[case.signals[name] for name in names] for case in cases], dtype=np.float64)
