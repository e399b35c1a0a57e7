"""`anaphora eval`: measure retrieval, choose settings by it, compare runs, and show them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.shared.console import stages
from cli.shared.options import (
    Every,
    FailUnder,
    Judged,
    Name,
    Out,
    Reranking,
    Rewriting,
    Run,
    Searched,
    listed,
    measured_run,
    overriding,
)
from cli.shared.resources import fetch_models, open_collection, open_rewriter, open_search
from cli.shared.state import InputError, state_of
from text.files import text_writer, write_text
from text.modules import need_extra

if TYPE_CHECKING:
    from evaluation.calibration import CalibrationPoint


app = typer.Typer(help="Measure retrieval, choose settings by it, and compare runs.", no_args_is_help=True)


@app.command()
def retrieval(
    context: typer.Context,
    questions: Judged,
    collection: Searched = "",
    rewriter: Rewriting = None,
    rerank: Reranking = None,
    every: Every = 1,
    name: Name = "",
    out: Out = None,
    fail_under: FailUnder = None,
) -> None:
    """Search for judged questions as a chat does: MAP, recall, nDCG and MRR, by part, in a run that can be compared."""
    from evaluation.retrieval import measure_search, patient
    from evaluation.sets import own_questions

    need_extra("eval", "Measuring", "ir_measures")
    state = state_of(context)
    flags = overriding(collection=collection, rewriter__kind=rewriter, retrieval__rerank=rerank)
    settings = patient(state.settings(flags))
    chosen = own_questions(questions).every(every)
    with (
        open_search(settings, state) as (searched, search),
        measured_run(state, settings, "retrieval", name, out, fail_under) as writer,
        stages(state.err) as progress,
    ):
        measure_search(chosen, searched, search, writer, progress)


@app.command()
def compare(
    context: typer.Context,
    before: Run,
    after: Annotated[Path, typer.Argument(help="Folder of the run to compare with it.")],
    systems: Annotated[
        str, typer.Option(help="Pairs BEFORE=AFTER by commas, where other systems than those of one name are meant.")
    ] = "",
    measures: Annotated[str, typer.Option(help="Measures by commas; the first picks winners and losers.")] = "",
    html: Annotated[Path | None, typer.Option(help="Also write a report to this file.")] = None,
    fail_under: Annotated[
        float | None,
        typer.Option(help="Exit with code 10 if a measure changed by less than this: 0 allows no loss at all."),
    ] = None,
) -> None:
    """Show what differs between two runs, how surely, and which questions won or lost most."""
    from evaluation import report
    from evaluation.questions import BelowThreshold, EvaluationError
    from evaluation.run_folder import read_run

    state = state_of(context)
    pairs = [pair.rsplit("=", 1) for pair in listed(systems)]
    if any(len(pair) != 2 for pair in pairs):
        raise EvaluationError("--systems takes pairs such as typed:rrf=auto:rrf, by commas.")
    runs = read_run(before), read_run(after)
    comparison = report.compare(*runs, measures=listed(measures), systems=dict(pairs) or None)
    differing = report.tests(comparison.differences)
    state.out.print(report.table(differing.head, differing.rows), soft_wrap=True)
    for title, changes in (("Winner", comparison.winners), ("Loser", comparison.losers)):
        for change in changes:
            state.out.print(
                f"\n{title}: {change.set} {change.question} {change.before:.3f} -> {change.after:.3f}",
                *(f"  {line}" for line in change.asked),
                *(f"  before | {line}" for line in change.before_evidence),
                *(f"  after  | {line}" for line in change.after_evidence),
                sep="\n",
                soft_wrap=True,
            )
    if html is not None:
        write_text(html, report.html(comparison.after, comparison))
        state.err.print(f"Wrote {html}.")
    if fail_under is not None and (lost := [d for d in comparison.differences if d.difference < fail_under]):
        losses = "; ".join(f"{d.set}/{d.level}/{d.system}/{d.measure}: {d.difference:+.4f}" for d in lost)
        raise BelowThreshold(f"{losses}; each must be at least {fail_under:+g}.")


@app.command()
def calibrate(
    context: typer.Context,
    questions: Judged,
    out: Annotated[Path, typer.Option("--out", "-o", help="The profile to write.")] = Path("profile.toml"),
    collection: Searched = "",
    model: Annotated[str, typer.Option(help="Folder or run id of a rewriter (rewriter.model).")] = "",
    every: Every = 1,
) -> None:
    """Try thresholds, weights and reranking on judged questions, and write the best retrieval profile."""
    from evaluation.calibration import Calibration, frontier
    from evaluation.sets import own_questions, placed
    from server.chat.loaded_models import Models

    need_extra("eval", "Calibrating", "ir_measures")
    state = state_of(context)
    flags = overriding(collection=collection, rewriter__kind="auto" if model else "", rewriter__model=model)
    settings = state.settings(flags)
    # The rewriter's own gate is open: thresholds are applied by the calibration.
    opened = settings.retrieval.profile.model_copy(update={"rewrite_threshold": 0.0})
    ungated = settings.model_copy(update={"retrieval": settings.retrieval.model_copy(update={"profile": opened})})
    chosen = own_questions(questions).every(every)

    def show(point: CalibrationPoint) -> None:
        state.err.print(f"{point.ndcg:.4f}  {point.milliseconds:6.0f} ms  {point.setting}")

    fetch_models(settings, state)
    models = Models(settings)
    with open_collection(settings, models) as searched, open_rewriter(ungated, state) as rewriter:
        relevant = placed(chosen, searched).passages()
        answerable = [question for question in chosen.questions if question.id in relevant]
        if not answerable:
            raise InputError(f"No question of {questions} names or quotes a passage of {settings.collection}.")
        calibration = Calibration(settings, searched, rewriter, models.reranker(), answerable, relevant, show)
        best = calibration.run()
    if not best.ndcg:
        raise InputError(f"No search found a passage of {questions}: are they of the collection as it is now?")
    with text_writer(out) as file:
        file.write(best.setting.profile(settings.retrieval.profile).toml())
    unbeaten = frontier(calibration.points)
    state.out.print("nDCG@5  ms a question  setting")
    shown_points = unbeaten if best in unbeaten else sorted([*unbeaten, best], key=lambda point: point.milliseconds)
    for point in shown_points:
        written = "  (written)" if point == best else ""
        state.out.print(f"{point.ndcg:.4f}  {point.milliseconds:13.0f}  {point.setting}{written}")
    state.err.print(f"Wrote {out}, from {len(answerable)} questions.")
