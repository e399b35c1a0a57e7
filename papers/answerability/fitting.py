"""Fitting the decision of `server.turn.decision`, and what it is worth: AUC, right refusals at few false ones, outcomes.

A fitted model is judged by cross-validation over the sets: no question by a model that saw one about the same documents.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import get_args

import numpy as np
import numpy.typing as npt
import regex

from evaluation.run_folder import RunWriter
from papers.answerability.collecting import Case, Kind
from papers.measures import area, bare, calibration_error, note
from server.settings.profile import RetrievalProfile
from server.turn.decision import KINDS, MONOTONE, OTHERS, WITH_QUESTION, Chances, DecisionModel, DecisionModels, decide

RIDGE = 0.02
QUESTION_RIDGE = 0.2
"""How strongly weights are held small: of standardised signals, and of the question's vector times the root of its
length."""

LEFT_OUT = 0.03
"""How much a search whose evidence was left out counts."""

FALSE = (0.02, 0.05)
"""Shares of the others that are wrongly refused, or asked back, at which tables say how many are rightly so."""

TELLING = ["model", "what is told apart", "n", "AUC", *(f"right at {share:.0%} false" for share in FALSE)]
"""Head of the rows of `telling`."""
OUTCOMES = ["model", "turns", "n", "answered", "asked", "refused"]
"""Head of the rows of `outcomes`."""

Numbers = npt.NDArray[np.float64]
Predict = Callable[[str, Sequence[Case]], Sequence[Chances]]
"""Chances of cases by the model of that name."""


def signals_of(case: Case, name: str) -> Mapping[str, float]:
    """The signals that the model `name` reads; empty where the case lacks them."""
    if name.endswith(WITH_QUESTION) and not case.vector:
        return {}
    return case.read if name.startswith("read") else case.unread


def fit(cases: Sequence[Case], name: str) -> DecisionModel:
    """Fit a multinomial logistic regression over standardised signals; weights are held small, those of support bounded.

    Not weighted by class: the chances are those of the questions it is fitted on, and of half of the searches whose
    evidence was left out.
    """
    from scipy.optimize import minimize

    names, reads_question = KINDS[name.split()[0]], name.endswith(WITH_QUESTION)
    raw = np.array([[signals_of(case, name)[signal] for signal in names] for case in cases], dtype=np.float64)
    weight = np.array([case.weight * (LEFT_OUT if case.kind == "left out" else 1.0) for case in cases])
    share = (weight / weight.sum())[:, None]
    mean = (share * raw).sum(axis=0)
    spread = np.sqrt((share * (raw - mean) ** 2).sum(axis=0))
    spread[spread < 1e-6] = 1.0
    vectors = np.array([case.vector for case in cases]) if reads_question else np.zeros((len(cases), 0))
    scale = np.sqrt(max(1, vectors.shape[1]))
    x = np.column_stack([(raw - mean) / spread, vectors * scale, np.ones(len(cases))])
    y = np.array([[case.right == outcome for outcome in OTHERS] for case in cases], dtype=np.float64)
    ridge = np.array([RIDGE] * len(names) + [QUESTION_RIDGE] * vectors.shape[1] + [0.0])

    def loss(flat: Numbers) -> tuple[float, Numbers]:
        weights = flat.reshape(len(OTHERS), -1)
        odds = np.exp(np.clip(x @ weights.T, -30, 30))
        total = 1 + odds.sum(axis=1, keepdims=True)
        value = float((share[:, 0] * (np.log(total[:, 0]) - (y * np.log(odds)).sum(axis=1))).sum())
        slope = (share * (odds / total - y)).T @ x + ridge * weights
        return value + float((ridge * weights**2).sum()) / 2, slope.ravel()

    bounds = [(None, 0.0 if signal in MONOTONE else None) for signal in names]
    bounds += [(None, None)] * (x.shape[1] - len(names))
    start = np.zeros(len(OTHERS) * x.shape[1])
    minimum = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds * len(OTHERS))
    weights = minimum.x.reshape(len(OTHERS), -1)
    slopes, question = weights[:, : len(names)] / spread, weights[:, len(names) : -1] * scale
    return DecisionModel(
        {outcome: round(float(weights[n, -1] - slopes[n] @ mean), 4) for n, outcome in enumerate(OTHERS)},
        {
            outcome: {signal: round(float(value), 4) for signal, value in zip(names, slopes[n], strict=True)}
            for n, outcome in enumerate(OTHERS)
        },
        {outcome: [round(float(value), 3) for value in question[n]] for n, outcome in enumerate(OTHERS)}
        if reads_question
        else {},
    )


def by_model(model: Callable[[str], DecisionModel]) -> Predict:
    """Chances by one model of each name."""

    def predict(name: str, cases: Sequence[Case]) -> Sequence[Chances]:
        return [model(name).chances(signals_of(case, name), np.array(case.vector)) for case in cases]

    return predict


def cross_validated(name: str, cases: Sequence[Case]) -> Sequence[Chances]:
    """The chances of every case by a model that was fitted on the cases of the other sets."""
    models = {of: fit([case for case in cases if case.of_set != of], name) for of in {case.of_set for case in cases}}
    return [models[case.of_set].chances(signals_of(case, name), np.array(case.vector)) for case in cases]


def usable(cases: Sequence[Case]) -> dict[str, list[Case]]:
    """The models, and the cases that each can be fitted on or judge; without those that none can judge."""
    names = [f"{kind}{more}" for kind in ("read", "unread") for more in (WITH_QUESTION, "")]
    by_name = {name: [case for case in cases if signals_of(case, name)] for name in names}
    return {name: own for name, own in by_name.items() if own}


def telling(cases: Sequence[Case], predict: Predict, writer: RunWriter) -> list[list[str]]:
    """How well each model tells what must be refused or asked back from what was found: rows below `TELLING`.

    Those asked back are compared with all other searches but the ones whose evidence was left out. The calibration
    error is that of the chance of answering, over the same searches, by weight.
    """
    rows = []
    for name, own in usable(cases).items():
        predicted = predict(name, own)
        for kind in get_args(Kind)[1:]:
            asked = kind == "underspecified"
            good = [
                (1 - chances.ask if asked else chances.sufficient)
                for chances, case in zip(predicted, own, strict=True)
                if (case.kind not in (kind, "left out") if asked else case.kind == "found")
            ]
            bad = [
                (1 - chances.ask if asked else chances.sufficient)
                for chances, case in zip(predicted, own, strict=True)
                if case.kind == kind
            ]
            if not good or not bad:
                continue
            auc = area([*good, *bad], [True] * len(good) + [False] * len(bad))
            right = [float(np.mean(np.array(bad) < np.quantile(good, share))) for share in FALSE]
            note(writer, "decision", kind, name, "AUC", bare(auc, len(bad)))
            rows.append([name, kind, str(len(bad)), f"{auc:.3f}", *(f"{value:.2f}" for value in right)])
        asked_alone = [pair for pair in zip(predicted, own, strict=True) if pair[1].kind != "left out"]
        error = calibration_error(
            [chances.answer for chances, _ in asked_alone],
            [case.right == "answer" for _, case in asked_alone],
            [case.weight for _, case in asked_alone],
        )
        note(writer, "decision", "all", name, "ECE", bare(error, len(asked_alone)))
        rows.append([name, "calibration error", str(len(asked_alone)), f"{error:.3f}", *[""] * len(FALSE)])
    return rows


def outcomes(cases: Sequence[Case], predict: Predict, profile: RetrievalProfile, writer: RunWriter) -> list[list[str]]:
    """What the profile's thresholds make of the searches of each kind: rows below `OUTCOMES`."""
    rows = []
    for name, own in usable(cases).items():
        predicted = predict(name, own)
        for kind in get_args(Kind):
            made = [decide(chances, profile) for chances, case in zip(predicted, own, strict=True) if case.kind == kind]
            shares = [made.count(outcome) / max(1, len(made)) for outcome in ("answer", "ask", "refuse")]
            for outcome, value in zip(("answered", "asked", "refused"), shares, strict=True):
                note(writer, "decision", kind, name, outcome, bare(value, len(made)))
            rows.append([name, kind, str(len(made)), *(f"{value:.2f}" for value in shares)])
    return rows


def as_json(models: DecisionModels, recipe: Mapping[str, object]) -> str:
    """The fitted models as the file that `server.turn.decision` reads, each list of numbers on one line."""
    by_kind = {name: asdict(model) for name, model in models.by_kind.items()}
    text = json.dumps({"recipe": recipe, "encoder": models.encoder, "models": by_kind}, indent=1, ensure_ascii=False)
    return regex.sub(r"\[[^\[\]]*\]", lambda found: " ".join(found[0].split()), text) + "\n"


def recipe(cases: Sequence[Case], split: str) -> dict[str, object]:
    """Describe the data and options of a fit."""
    return {
        "sets": sorted({case.of_set for case in cases}),
        "split": split,
        "cases": {kind: sum(case.kind == kind for case in cases) for kind in get_args(Kind)},
        "ridge": RIDGE,
        "question ridge": QUESTION_RIDGE,
        "left out": LEFT_OUT,
    }
