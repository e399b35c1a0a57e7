"""Fitting the answerability of `server.turn.answerability`, and its precision and recall over thresholds.

Questions people marked as unanswerable are few, so a second kind is added: questions of one corpus asked to
another, which cannot answer them. The two are always shown apart, because the second is the easier. All curves
are cross-validated: no question is judged by a model that saw a question of its conversation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evaluation.answering import read_journal
from evaluation.reports import charts
from evaluation.reports.charts import Line
from evaluation.reports.runs import Metric, RunWriter, slug
from evaluation.retrieval import Bench, index_set
from index.collection import Collection
from rewriter.passthrough import PassThroughRewriter
from server.turn.answerability import BASE, READ, WITH_RELEVANCE, AnswerabilityModel, signals
from server.turn.search import TurnSearch

if TYPE_CHECKING:
    from markupsafe import Markup

    from evaluation.sets.base import EvalSet

FOLDS = 5
RIDGE = 0.02
SEED = 5

SHOWN = (0.02, 0.05, 0.1, 0.2)
"""Shares of false refusals at which a table says how much is refused rightly."""
HEAD = ["unanswerable questions", "model", "AUC", *(f"refused rightly at {share:.0%} false" for share in SHOWN)]
"""Of the rows of `measure_kinds`."""
JOINED_HEAD = ["refused by", "unanswerable refused", "answerable refused", "n"]
"""Of the rows of `with_answers`."""
KINDS = {"base": BASE, "with relevance": WITH_RELEVANCE}
"""The models that are fitted, and their signals."""

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


def _matrix(cases: Sequence[Case], names: Sequence[str]) -> Numbers:
    return np.array([[case.signals[name] for name in names] for case in cases], dtype=np.float64)


def collect_cases(chosen: Sequence[EvalSet], bench: Bench) -> Iterator[Case]:
    """Every marked question over its own corpus and over the others', read again by the cross-encoder."""
    changes = {"rerank": "always", "rerank_top": READ, "rerank_seconds": 60.0}
    changed = bench.settings.model_copy(update={"retrieval": bench.settings.retrieval.model_copy(update=changes)})
    for one in chosen:
        with closing(Collection.open(bench.root, index_set(one, bench), bench.encoder)) as collection:
            search = TurnSearch(
                collection=lambda _, opened=collection: opened,  # type: ignore[misc]
                rewriter=PassThroughRewriter(),
                settings=changed,
                reranker=bench.reranker,
            )
            asked = [
                (other, question)
                for other in chosen
                for question in other.questions
                if question.answerability in ("answerable", "partial", "unanswerable")
            ]
            for done, (other, question) in enumerate(asked):
                bench.progress(f"{one.name}: searching", done, len(asked))
                foreign = other.name != one.name
                found = search.find(question.text, collection="", conversation=question.conversation, k=20)
                yield Case(
                    f"{question.id}@{one.name}",
                    question.dialog,
                    signals(found.plan.meaning, found.hits),
                    not foreign and question.answerability != "unanswerable",
                    foreign,
                )


def measure_kinds(
    cases: Sequence[Case], writer: RunWriter
) -> tuple[dict[str, AnswerabilityModel], list[list[str]], list[Line]]:
    """Fit every kind of model and write its curves into the run: the models, rows below `HEAD`, and lines to plot."""
    models, rows, lines = dict[str, AnswerabilityModel](), list[list[str]](), list[Line]()
    for kind, names in KINDS.items():
        models[kind] = fit(cases, names)
        probabilities = cross_validated(cases, names)
        for label, foreign in (("marked by people", False), ("asked to another corpus", True)):
            members = [
                (p, case.answerable)
                for p, case in zip(probabilities, cases, strict=True)
                if case.answerable or case.foreign == foreign
            ]
            predicted, truth = [p for p, _ in members], [own for _, own in members]
            points = curve(predicted, truth)
            auc = area(predicted, truth)
            writer.metrics.append(
                Metric("refusal", label, kind, "all", "AUC", auc, float("nan"), float("nan"), len(members))
            )
            writer.write_rows((asdict(point) for point in points), f"{label.replace(' ', '-')}.{kind[:4]}.curve.jsonl")
            best = [max((p for p in points if p.false_refusals <= s), key=lambda p: p.recall) for s in SHOWN]
            rows.append([label, kind, f"{auc:.3f}", *(f"{p.recall:.2f} (p < {p.threshold:.2f})" for p in best)])
            precisions = [max(p.precision for p in points if p.recall >= step / 10 - 1e-9) for step in range(11)]
            lines.append(Line(f"{kind}, {label}", precisions, len(lines)))
    return models, rows, lines


def plot(series: Sequence[Line]) -> Markup:
    """The lines of `measure_kinds`: precision over recall."""
    ticks = [f"{step / 10:g}" for step in range(11)]
    return charts.lines("Refusing below a threshold", "recall of unanswerable", "precision", ticks, series)


def with_answers(answers: Path, chosen: Sequence[EvalSet], cases: Sequence[Case]) -> list[list[str]]:
    """Refusals of a run of answers, alone and with the score's at some shares of false ones: below `JOINED_HEAD`."""
    probabilities = cross_validated(cases, KINDS["with relevance"])
    turns = {
        name: turn for one in chosen for name, turn in read_journal(answers / slug(one.name) / "turns.jsonl").items()
    }
    refused = {name: turn.status == "refused" for name, turn in turns.items() if turn.status != "error"}
    own = [p for p, case in zip(probabilities, cases, strict=True) if case.answerable]
    thresholds = [sorted(own)[int(share * len(own))] for share in SHOWN] if own else []
    return [
        [name, f"{right:.2f}", f"{wrong:.2f}", str(count)]
        for name, right, wrong, count in joined(cases, probabilities, refused, thresholds)
    ]
