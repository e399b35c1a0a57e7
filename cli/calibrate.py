"""`anaphora eval calibrate`: choose a retrieval profile on judged questions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.shared.options import Every, Queries, Searched, overriding
from cli.shared.state import InputError, state_of

if TYPE_CHECKING:
    from evaluation.calibration import CalibrationPoint


def calibrate(
    context: typer.Context,
    queries: Queries,
    qrels: Annotated[Path, typer.Option(help="Relevant passages of the questions (TREC or BEIR form).")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The profile to write.")] = Path("profile.toml"),
    collection: Searched = "",
    model: Annotated[str, typer.Option(help="Folder or run id of a rewriter (rewriter.model).")] = "",
    every: Every = 1,
) -> None:
    """Try thresholds, weights and reranking on judged questions, and write the best retrieval profile."""
    from cli.shared.resources import fetch_models, open_collection, open_rewriter
    from evaluation.calibration import Calibration, frontier, judged
    from evaluation.metrics import read_qrels
    from evaluation.questions import read_questions
    from server.chat.loaded_models import Models
    from text.files import text_writer
    from text.modules import need_extra

    need_extra("eval", "Calibrating", "ir_measures")
    state = state_of(context)
    kind = "auto" if model else ""
    flags = overriding(collection=collection, rewriter__kind=kind, rewriter__model=model)
    settings = state.settings(flags)
    # The rewriter's own gate is open: thresholds are applied by the calibration.
    opened = settings.retrieval.profile.model_copy(update={"rewrite_threshold": 0.0})
    ungated = settings.model_copy(update={"retrieval": settings.retrieval.model_copy(update={"profile": opened})})
    try:
        relevant = read_qrels(qrels)
    except ValueError as error:
        raise InputError(f"{error}. Correct the file.") from error
    judged_queries = judged((line.question for line in read_questions(queries)), relevant)[::every]
    if not judged_queries:
        raise InputError(f"No question of {queries} has a relevant passage in {qrels}: do their ids agree?")

    def show(point: CalibrationPoint) -> None:
        state.err.print(f"{point.ndcg:.4f}  {point.milliseconds:6.0f} ms  {point.setting}")

    fetch_models(settings, state)
    models = Models(settings)
    with open_collection(settings, models) as searched, open_rewriter(ungated, state) as rewriter:
        calibration = Calibration(settings, searched, rewriter, models.reranker(), judged_queries, relevant, show)
        best = calibration.run()
    if not best.ndcg:
        raise InputError(f"No search found a passage of {qrels}: are they passages of the collection as it is now?")
    with text_writer(out) as file:
        file.write(best.setting.profile(settings.retrieval.profile).toml())
    unbeaten = frontier(calibration.points)
    state.out.print("nDCG@5  ms a question  setting")
    shown_points = unbeaten if best in unbeaten else sorted([*unbeaten, best], key=lambda point: point.milliseconds)
    for point in shown_points:
        chosen = "  (written)" if point == best else ""
        state.out.print(f"{point.ndcg:.4f}  {point.milliseconds:13.0f}  {point.setting}{chosen}")
    state.err.print(f"Wrote {out}, from {len(judged_queries)} questions.")
