"""Fitting the decision of `server.turn.decision`, and what it is worth: AUC, refusals over thresholds, calibration.

People have marked which questions the documents answer, which they do not, and which need asking back. Questions of
one corpus asked to another, which cannot answer them, can be added; they are the easier kind and always shown apart.
A model that is fitted is judged by cross-validation: no question by a model that saw a question of its conversation.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evaluation.answers import read_journal
from evaluation.questions import json_rows
from evaluation.report import plot as plot_lines
from evaluation.retrieval import Bench, index_set
from evaluation.run_folder import RunWriter, slug
from evaluation.significance import Estimate
from evaluation.systems import patient
from papers.measures import area, calibration_error
from server.turn.decision import KINDS, MONOTONE, OTHERS, Chances, DecisionModel, Outcome, language_of_hits, signals
from server.turn.search import TurnSearch

if TYPE_CHECKING:
    from markupsafe import Markup

    from evaluation.answers import AnsweredTurn
    from evaluation.questions import Question
    from evaluation.sets import EvalSet
    from rewriter.protocol import Rewriter

FOLDS = 5
RIDGE = 0.02
SEED = 5
READ_SECONDS = 60.0

RIGHT: Mapping[str, Outcome] = {
    "answerable": "answer",
    "partial": "answer",
    "underspecified": "ask",
    "unanswerable": "refuse",
}
"""The right outcome by what people marked; questions marked otherwise are left out."""

SHOWN = (0.05, 0.1, 0.2)
"""Shares of answerable questions refused, or asked back, at which a table says how many are so rightly."""
HEAD = ["what is told apart", "n", "model", "AUC", *(f"right at {share:.0%} false" for share in SHOWN)]
"""Of the rows of `measure_kinds`."""
JOINED_HEAD = ["refused by", "unanswerable refused", "answerable refused", "n"]
"""Of the rows of `with_answers`."""

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Case:
    """Signals of one question's search, and what would be right.

    `foreign`: asked to another corpus than its own. `weight`: how many questions it stands for, where some were left
    out.
    """

    id: str
    dialog: str
    signals: Mapping[str, float]
    right: Outcome
    foreign: bool = False
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """Effect of refusing below a threshold; refusing an unanswerable question counts as right."""

    threshold: float
    precision: float
    recall: float
    false_refusals: float
    """Share of answerable questions refused."""


def fit(cases: Sequence[Case], names: Sequence[str]) -> DecisionModel:
    """Multinomial logistic regression over standardised signals, weights held small and those of support bounded.

    Not weighted by class: the chances are those of the questions it is fitted on.
    """
    from scipy.optimize import minimize

    raw = np.array([[case.signals[name] for name in names] for case in cases], dtype=np.float64)
    share = np.array([case.weight for case in cases])[:, None] / sum(case.weight for case in cases)
    mean = (share * raw).sum(axis=0)
    spread = np.sqrt((share * (raw - mean) ** 2).sum(axis=0))
    spread[spread < 1e-6] = 1.0
    x = np.column_stack([(raw - mean) / spread, np.ones(len(cases))])
    y = np.array([[case.right == name for name in OTHERS] for case in cases], dtype=np.float64)

    def loss(flat: Numbers) -> tuple[float, Numbers]:
        weights = flat.reshape(len(OTHERS), -1)
        odds = np.exp(np.clip(x @ weights.T, -30, 30))
        total = 1 + odds.sum(axis=1, keepdims=True)
        held = weights.copy()
        held[:, -1] = 0
        value = float((share[:, 0] * (np.log(total[:, 0]) - (y * np.log(odds)).sum(axis=1))).sum())
        slope = (share * (odds / total - y)).T @ x + RIDGE * held
        return value + RIDGE / 2 * float((held**2).sum()), slope.ravel()

    bounds = [(None, 0.0 if name in MONOTONE else None) for name in names] + [(None, None)]
    start = np.zeros(len(OTHERS) * x.shape[1])
    minimum = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds * len(OTHERS))
    weights = minimum.x.reshape(len(OTHERS), -1)
    slopes = weights[:, :-1] / spread
    return DecisionModel(
        {outcome: round(float(weights[n, -1] - slopes[n] @ mean), 4) for n, outcome in enumerate(OTHERS)},
        {
            outcome: {name: round(float(value), 4) for name, value in zip(names, slopes[n], strict=True)}
            for n, outcome in enumerate(OTHERS)
        },
    )


def cross_validated(cases: Sequence[Case], names: Sequence[str]) -> list[Chances]:
    """The chances of every case by a model fitted on the conversations of other folds."""
    dialogs = sorted({case.dialog for case in cases})
    order = np.random.default_rng(SEED).permutation(len(dialogs))
    fold = {dialogs[place]: rank % FOLDS for rank, place in enumerate(order)}
    predictions = [Chances(1 / 3, 1 / 3, 1 / 3)] * len(cases)
    for part in range(FOLDS):
        others = [case for case in cases if fold[case.dialog] != part]
        if len({case.right for case in others}) < 2:
            continue
        model = fit(others, names)
        for place, case in enumerate(cases):
            if fold[case.dialog] == part:
                predictions[place] = model.chances(case.signals)
    return predictions


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


def joined(
    cases: Sequence[Case], probabilities: Sequence[float], refused: Mapping[str, bool], thresholds: Sequence[float]
) -> list[tuple[str, float, float, int]]:
    """Combine a model's own refusals with refusing below a threshold, and compare with no threshold.

    `refused` says by question whether the model refused. For no threshold, and for each with and without the model:
    its name, the share of unanswerable questions refused, the share of answerable ones, and how many questions there
    were. Foreign cases are left out, since no model was asked.
    """
    labelled = [
        (refused[case.id.rpartition("@")[0]], p, case.right != "refuse")
        for case, p in zip(cases, probabilities, strict=True)
        if not case.foreign and case.id.rpartition("@")[0] in refused
    ]
    rows = []
    ways = [("the model alone", True, 0.0)]
    ways += [
        way
        for threshold in thresholds
        for way in ((f"or p < {threshold:.2f}", True, threshold), (f"p < {threshold:.2f}", False, threshold))
    ]
    for name, heard, threshold in ways:
        sides: dict[bool, list[bool]] = {True: [], False: []}
        for by_model, p, answerable in labelled:
            sides[answerable].append((heard and by_model) or p < threshold)
        rates = [sum(side) / max(1, len(side)) for side in (sides[False], sides[True])]
        rows.append((name, rates[0], rates[1], len(labelled)))
    return rows


def as_json(fitted: Mapping[str, DecisionModel], recipe: Mapping[str, object]) -> str:
    """The fitted models as the file `server.turn.decision` reads."""
    whole = {"encoder": "", "recipe": recipe, "models": {name: asdict(model) for name, model in fitted.items()}}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def recipe(cases: Sequence[Case], sets: Sequence[str], split: str) -> dict[str, object]:
    """Describe the data and options of a fit."""
    counts = {name: sum(case.right == name for case in cases) for name in ("answer", *OTHERS)}
    return {"sets": list(sets), "split": split, "cases": counts, "ridge": RIDGE, "folds": FOLDS}


def collect_cases(
    chosen: Sequence[EvalSet],
    bench: Bench,
    rewriter: Rewriter,
    path: Path,
    *,
    answerable: float = 1.0,
    foreign: int = 0,
) -> list[Case]:
    """Every marked question searched for as in a turn, read without a time limit; each is kept in `kept` at once.

    Questions that are already in the file are skipped. Of answerable questions a share is drawn, which then counts for
    all. Every `foreign`th question is also asked to the next set, none with 0.
    """
    known = {case.id: case for case in read_cases(path)} if path.exists() else {}
    cases: list[Case] = []
    with path.open("a", encoding="utf-8") as file:
        for place, eval_set in enumerate(chosen):
            pairs = [(eval_set, question) for question in drawn(eval_set.questions, answerable)]
            if foreign and len(chosen) > 1:
                pairs += [(chosen[place - 1], question) for question in chosen[place - 1].questions[::foreign]]
            pairs = [(source, question) for source, question in pairs if question.answerability in RIGHT]
            cases += [known[name] for source, question in pairs if (name := f"{question.id}@{eval_set.name}") in known]
            missing = [
                (source, question) for source, question in pairs if f"{question.id}@{eval_set.name}" not in known
            ]
            if missing:
                for case in _searched(eval_set, missing, bench, rewriter, answerable):
                    file.write(json.dumps(asdict(case)) + "\n")
                    file.flush()
                    cases.append(case)
    return cases


def drawn(questions: Sequence[Question], share: float) -> list[Question]:
    """All questions but of those marked answerable only that share, always the same ones."""
    return [
        question
        for question in questions
        if question.answerability != "answerable" or random.Random(f"5:{question.id}").random() < share
    ]


def read_cases(path: Path) -> Iterator[Case]:
    """The cases of a run."""
    for _, row in json_rows(path):
        yield Case(**row)


def _searched(
    eval_set: EvalSet, pairs: Sequence[tuple[EvalSet, Question]], bench: Bench, rewriter: Rewriter, answerable: float
) -> Iterator[Case]:
    with closing(bench.open(index_set(eval_set, bench))) as collection:
        search = TurnSearch(
            collection=lambda _: collection,
            rewriter=rewriter,
            settings=patient(bench.settings, READ_SECONDS),
            reranker=bench.reading or bench.reranker,
        )
        for done, (source, question) in enumerate(pairs):
            bench.progress(f"{eval_set.name}: searching", done, len(pairs))
            searched = search.find(question.text, collection="", conversation=question.conversation, k=20)
            own = source is eval_set
            yield Case(
                f"{question.id}@{eval_set.name}",
                question.dialog,
                signals(searched.plan, searched.hits, language_of_hits(searched.hits, bench.settings.index.language)),
                RIGHT[question.answerability] if own else "refuse",
                not own,
                1 / answerable if question.answerability == "answerable" else 1.0,
            )


def measure_kinds(
    cases: Sequence[Case], models: Mapping[str, DecisionModel] | None, writer: RunWriter
) -> tuple[dict[str, DecisionModel], list[list[str]], dict[str, list[float]]]:
    """Judge `models`, or else fit them and judge them by cross-validation, and write the curves into the run.

    Returns the models, rows below `HEAD`, and lines to plot.
    """
    fitted, rows, lines = dict[str, DecisionModel](), list[list[str]](), dict[str, list[float]]()
    for kind, names in KINDS.items():
        own = [case for case in cases if all(name in case.signals for name in names)]
        if not own:
            continue
        fitted[kind] = models[kind] if models else fit(own, names)
        predictions = [fitted[kind].chances(case.signals) for case in own] if models else cross_validated(own, names)
        for label, wrong, foreign, scores in (
            ("unanswerable", ("refuse",), False, [1 - chances.refuse for chances in predictions]),
            ("underspecified", ("ask",), False, [1 - chances.ask for chances in predictions]),
            ("either", ("ask", "refuse"), False, [chances.answer for chances in predictions]),
            ("asked to another corpus", ("refuse",), True, [1 - chances.refuse for chances in predictions]),
        ):
            members = [
                (p, case)
                for p, case in zip(scores, own, strict=True)
                if case.right == "answer" or (case.right in wrong and case.foreign == foreign)
            ]
            truth = [case.right == "answer" for _, case in members]
            if all(truth):
                continue
            predicted = [p for p, _ in members]
            points, auc = curve(predicted, truth), area(predicted, truth)
            writer.note("refusal", label, kind, "AUC", Estimate.bare(auc, len(members)))
            writer.write_rows((asdict(point) for point in points), f"{label.replace(' ', '-')}.{kind}.curve.jsonl")
            best = [max((p for p in points if p.false_refusals <= s), key=lambda p: p.recall) for s in SHOWN]
            recalls = [f"{p.recall:.2f} (p < {p.threshold:.2f})" for p in best]
            rows.append([label, str(len(truth) - sum(truth)), kind, f"{auc:.3f}", *recalls])
            if label == "either":
                error = calibration_error(predicted, truth, [case.weight for _, case in members])
                writer.note("refusal", label, kind, "ECE", Estimate.bare(error, len(members)))
                rows.append(["calibration error of it", str(len(truth)), kind, f"{error:.3f}", *[""] * len(SHOWN)])
            precisions = [max(p.precision for p in points if p.recall >= step / 10 - 1e-9) for step in range(11)]
            lines[f"{kind}, {label}"] = precisions
    return fitted, rows, lines


def plot(series: Mapping[str, Sequence[float]]) -> Markup:
    """The lines of `measure_kinds`: precision over recall."""
    ticks = [f"{step / 10:g}" for step in range(11)]
    return plot_lines("Refusing, or asking back, below a threshold", "recall", "precision", ticks, series)


def with_answers(
    answers: Path, chosen: Sequence[EvalSet], cases: Sequence[Case], models: Mapping[str, DecisionModel]
) -> list[list[str]]:
    """Refusals of a run of answers, alone and with the decision's at some shares of false ones: below `JOINED_HEAD`."""
    probabilities = [1 - _fitting(models, case).chances(case.signals).refuse for case in cases]
    refused = {name: turn.status == "refused" for name, turn in _turns(answers, chosen) if turn.status != "error"}
    own = [p for p, case in zip(probabilities, cases, strict=True) if case.right != "refuse"]
    thresholds = [sorted(own)[int(share * len(own))] for share in SHOWN] if own else []
    return [
        [name, f"{right:.2f}", f"{wrong:.2f}", str(count)]
        for name, right, wrong, count in joined(cases, probabilities, refused, thresholds)
    ]


def _fitting(models: Mapping[str, DecisionModel], case: Case) -> DecisionModel:
    return models["read" if "best relevance" in case.signals else "unread"]


def _turns(answers: Path, chosen: Sequence[EvalSet]) -> Iterator[tuple[str, AnsweredTurn]]:
    for eval_set in chosen:
        yield from read_journal(answers / slug(eval_set.name) / "turns.jsonl").items()
