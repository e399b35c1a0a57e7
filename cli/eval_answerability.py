"""`anaphora eval answerability`: fit and judge the decision to refuse, from the search alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.shared.eval_options import Data, Name, Out, bench, listed, runs_folder
from cli.shared.state import State, state_of

if TYPE_CHECKING:
    from evaluation.answerability import Case
    from evaluation.retrieval import Bench
    from evaluation.sets.base import EvalSet
    from server.settings import Settings
    from server.turn.answerability import AnswerabilityModel

SHOWN = (0.02, 0.05, 0.1, 0.2)
"""Shares of false refusals at which the table says how much is refused rightly."""


def answerability(
    context: typer.Context,
    data: Data = None,
    sets: Annotated[str, typer.Option(help="Sets whose questions are marked, by commas.")] = "mtrag-cloud,mtrag-govt",
    answers: Annotated[
        Path | None, typer.Option(help="Folder of a run of answers: also show its refusals joined with these.")
    ] = None,
    weights: Annotated[Path | None, typer.Option(help="Write the fitted weights to this file (TOML).")] = None,
    name: Name = "",
    out: Out = None,
) -> None:
    """Fit how likely the passages answer a question; precision and recall of refusing below a threshold.

    Questions of each set are also asked to the others, which cannot answer them.
    """
    from evaluation import answerability as fitting
    from evaluation.reports import charts, tables
    from evaluation.reports import page as report
    from evaluation.reports.runs import Metric, create_run
    from evaluation.sets import load_set

    state = state_of(context)
    settings = state.settings()
    chosen = [load_set(one, data) for one in listed(sets)]
    writer = create_run(runs_folder(settings, out), "answerability", name)
    with bench(settings, state, rerank=True) as measuring:
        cases = list(_cases(chosen, settings, measuring))
    writer.write_rows((asdict(case) for case in cases), "cases.jsonl")
    models: dict[str, AnswerabilityModel] = {}
    lines: list[charts.Line] = []
    rows: list[list[str]] = []
    for kind, signals in fitting.KINDS.items():
        models[kind] = fitting.fit(cases, signals)
        probabilities = fitting.cross_validated(cases, signals)
        for label, foreign in (("marked by people", False), ("asked to another corpus", True)):
            members = [
                (p, case.answerable)
                for p, case in zip(probabilities, cases, strict=True)
                if case.answerable or case.foreign == foreign
            ]
            told, truth = [p for p, _ in members], [own for _, own in members]
            places = fitting.curve(told, truth)
            auc = fitting.area(told, truth)
            writer.metrics.append(
                Metric("refusal", label, kind, "all", "AUC", auc, float("nan"), float("nan"), len(members))
            )
            writer.write_rows((asdict(place) for place in places), f"{label.replace(' ', '-')}.{kind[:4]}.curve.jsonl")
            best = [max((p for p in places if p.false_refusals <= s), key=lambda p: p.recall) for s in SHOWN]
            rows.append([label, kind, f"{auc:.3f}", *(f"{p.recall:.2f} (p < {p.threshold:.2f})" for p in best)])
            steps = [step / 10 for step in range(11)]
            lines.append(
                charts.Line(
                    f"{kind}, {label}",
                    [max(p.precision for p in places if p.recall >= step - 1e-9) for step in steps],
                    len(lines),
                )
            )
    run = writer.finish(settings)
    head = ["unanswerable questions", "model", "AUC", *(f"refused rightly at {share:.0%} false" for share in SHOWN)]
    state.out.print(tables.table(head, rows), soft_wrap=True)
    if answers is not None:
        _show_joined(state, answers, chosen, cases, fitting.cross_validated(cases, fitting.KINDS["with relevance"]))
    ticks = [f"{step / 10:g}" for step in range(11)]
    plot = charts.lines("Refusing below a threshold", "recall of unanswerable", "precision", ticks, lines)
    (run.folder / "report.html").write_text(report.html(run, extra=[plot]), "utf-8")
    if weights is not None:
        weights.write_text(fitting.as_toml(models), "utf-8")
    state.err.print(f"Wrote {run.folder}.")


def _show_joined(
    state: State, answers: Path, chosen: Sequence[EvalSet], cases: Sequence[Case], probabilities: Sequence[float]
) -> None:
    """Refusals of a run of answers, alone and together with the score's at some shares of false refusals."""
    from evaluation import answerability as fitting
    from evaluation.answering import read_journal
    from evaluation.reports import tables
    from evaluation.reports.runs import slug

    turns = {
        name: turn for one in chosen for name, turn in read_journal(answers / slug(one.name) / "turns.jsonl").items()
    }
    refused = {name: turn.status == "refused" for name, turn in turns.items() if turn.status != "error"}
    own = [p for p, case in zip(probabilities, cases, strict=True) if case.answerable]
    thresholds = [sorted(own)[int(share * len(own))] for share in SHOWN] if own else []
    rows = [
        [name, f"{right:.2f}", f"{wrong:.2f}", str(count)]
        for name, right, wrong, count in fitting.joined(cases, probabilities, refused, thresholds)
    ]
    head = ["refused by", "unanswerable refused", "answerable refused", "n"]
    state.out.print("", tables.table(head, rows), sep="\n", soft_wrap=True)


def _cases(chosen: Sequence[EvalSet], settings: Settings, measuring: Bench) -> Iterator[Case]:
    """Every marked question over its own corpus and over the others', read again by the cross-encoder."""
    from evaluation.answerability import Case
    from evaluation.retrieval import index_set
    from index.collection import Collection
    from rewriter.passthrough import PassThroughRewriter
    from server.turn.answerability import READ, signals
    from server.turn.search import TurnSearch

    changes = {"rerank": "always", "rerank_top": READ, "rerank_seconds": 60.0}
    changed = settings.model_copy(update={"retrieval": settings.retrieval.model_copy(update=changes)})
    for one in chosen:
        with closing(Collection.open(measuring.root, index_set(one, measuring), measuring.encoder)) as collection:
            search = TurnSearch(
                collection=lambda _, opened=collection: opened,  # type: ignore[misc]
                rewriter=PassThroughRewriter(),
                settings=changed,
                reranker=measuring.reranker,
            )
            asked = [
                (other, question)
                for other in chosen
                for question in other.questions
                if question.answerability in ("answerable", "partial", "unanswerable")
            ]
            for done, (other, question) in enumerate(asked):
                measuring.progress(f"{one.name}: searching", done, len(asked))
                foreign = other.name != one.name
                found = search.find(question.text, collection="", conversation=question.conversation, k=20)
                yield Case(
                    f"{question.id}@{one.name}",
                    question.dialog,
                    signals(found.plan.meaning, found.hits),
                    not foreign and question.answerability != "unanswerable",
                    foreign,
                )
