"""`anaphora eval answerability`: fit and judge the decision to refuse, from the search alone."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cli.shared.evaluating import bench, listed, runs_folder
from cli.shared.options import Data, Name, Out
from cli.shared.state import state_of


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
    from evaluation.reports import page as report
    from evaluation.reports import tables
    from evaluation.reports.runs import create_run
    from evaluation.sets import load_sets

    state = state_of(context)
    settings = state.settings()
    chosen = load_sets(listed(sets), data)
    writer = create_run(runs_folder(settings, out), "answerability", name)
    with bench(settings, state, rerank=True) as measuring:
        cases = list(fitting.collect_cases(chosen, measuring))
    writer.write_rows((asdict(case) for case in cases), "cases.jsonl")
    models, rows, lines = fitting.measure_kinds(cases, writer)
    run = writer.finish(settings)
    state.out.print(tables.table(fitting.HEAD, rows), soft_wrap=True)
    if answers is not None:
        joined = tables.table(fitting.JOINED_HEAD, fitting.with_answers(answers, chosen, cases))
        state.out.print("", joined, sep="\n", soft_wrap=True)
    (run.folder / "report.html").write_text(report.html(run, extra=[fitting.plot(lines)]), "utf-8")
    if weights is not None:
        weights.write_text(fitting.as_toml(models), "utf-8")
    state.err.print(f"Wrote {run.folder}.")
