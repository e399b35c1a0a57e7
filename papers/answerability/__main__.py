"""`python -m papers.answerability`: fit and judge the decision to answer, ask back or refuse, from the search alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.shared.options import Data, Name, Out, bench, listed, open_form, runs_folder
from cli.shared.state import state_of
from papers.command_line import paper_app


def measure(
    context: typer.Context,
    data: Data = None,
    sets: Annotated[str, typer.Option(help="Sets whose questions are marked, by commas.")] = "product-*",
    split: Annotated[str, typer.Option(help="The part of sets that have several: train or dev.")] = "dev",
    fit: Annotated[
        Path | None, typer.Option(help="Fit on these questions, and write the models to this file (JSON).")
    ] = None,
    answerable: Annotated[
        float, typer.Option(min=0.01, max=1, help="Share of the questions drawn that are marked answerable.")
    ] = 1.0,
    foreign: Annotated[int, typer.Option(min=0, help="Ask every so manieth question to the next set too.")] = 0,
    answers: Annotated[
        Path | None, typer.Option(help="Folder of a run of answers: also show its refusals joined with these.")
    ] = None,
    name: Name = "",
    out: Out = None,
) -> None:
    """Judge how well the decision tells what the passages answer; with --fit, fit it anew and cross-validate it.

    Searches are cached in the run: after an interruption, the same --name resumes.
    """
    from evaluation import report
    from evaluation.run_folder import create_run
    from evaluation.sets import load_sets
    from papers.answerability import fitting
    from server.turn.decision import models as packaged

    state = state_of(context)
    settings = state.settings()
    chosen = load_sets(listed(sets), data, split=split)
    writer = create_run(runs_folder(settings, out), "answerability", name, resume=bool(name))
    cases_path = writer.path("cases.jsonl")
    with bench(settings, state, rerank=True) as measuring, open_form("auto", settings, state) as rewriter:
        cases = fitting.collect_cases(chosen, measuring, rewriter, cases_path, answerable=answerable, foreign=foreign)
    models, rows, lines = fitting.measure_kinds(cases, None if fit else packaged().by_kind, writer)
    run = writer.finish(settings)
    state.out.print(report.table(fitting.HEAD, rows), soft_wrap=True)
    if answers is not None:
        joined = report.table(fitting.JOINED_HEAD, fitting.with_answers(answers, chosen, cases, models))
        state.out.print("", joined, sep="\n", soft_wrap=True)
    (run.folder / "report.html").write_text(report.html(run, extra=[fitting.plot(lines)]), "utf-8")
    if fit is not None:
        fit.write_text(
            fitting.as_json(models, fitting.recipe(cases, [eval_set.name for eval_set in chosen], split)), "utf-8"
        )
    state.err.print(f"Wrote {run.folder}.")


app = paper_app("Answer, ask back or refuse: fit the decision on marked questions, and judge it.", measure=measure)

if __name__ == "__main__":
    app(prog_name="python -m papers.answerability")
