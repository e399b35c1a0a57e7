"""`anaphora eval retrieval`: data sets, or questions of your own, searched with several settings."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from cli.shared.evaluating import bench, listed, measured_run, open_form, write_file
from cli.shared.options import By, Data, Every, FailUnder, Name, Out, Sets, overriding
from cli.shared.state import state_of


def retrieval(
    context: typer.Context,
    sets: Sets = "",
    data: Data = None,
    questions: Annotated[
        Path | None, typer.Option(help="Questions of your own about an indexed collection, one JSON object a line.")
    ] = None,
    collection: Annotated[str, typer.Option("--collection", "-c", help="The collection --questions are about.")] = "",
    systems: Annotated[str, typer.Option(help="What to compare, by commas: FORM:RETRIEVER[+rerank].")] = "",
    baseline: Annotated[str, typer.Option(help="The system the others are tested against.")] = "typed:rrf",
    every: Every = 1,
    timed: Annotated[int, typer.Option(min=0, help="Questions to take latencies on; 0 takes none.")] = 30,
    before: Annotated[
        Path | None,
        typer.Option(help="A settings file: what uses a rewriter is also measured with its retrieval and rewriter."),
    ] = None,
    table: Annotated[
        Path | None, typer.Option(help="Also write all systems side by side as Markdown, and what gap they close.")
    ] = None,
    by: By = None,
    name: Name = "",
    out: Out = None,
    fail_under: FailUnder = None,
) -> None:
    """Search data sets, or questions of your own, with several settings; MAP, recall, nDCG and MRR of each.

    With --name, the same command goes on with what was interrupted.
    """
    from evaluation.errors import EvaluationError
    from evaluation.reports import tables
    from evaluation.reports.runs import read_run
    from evaluation.retrieval import evaluate_sets
    from evaluation.sets import beir, load_sets
    from evaluation.systems import DEFAULT_SYSTEMS, parse

    state = state_of(context)
    parsed = list(dict.fromkeys(map(parse, listed(systems) or DEFAULT_SYSTEMS)))
    against = parse(baseline).name
    settings = state.settings(overriding(collection=collection))
    chosen = load_sets(listed(sets), data, every)
    if questions is not None:
        chosen.append(beir.own_questions(questions).every(every))
    if not chosen:
        raise EvaluationError("Say what to measure: --sets with --data, or --questions with --collection.")
    compared = [(state, settings, parsed)]
    if before is not None:
        older = replace(state, config=before)
        was = older.settings(overriding(collection=collection))
        changes = {"retrieval": was.retrieval, "rewriter": was.rewriter}
        labelled = [replace(one, label="before") for one in parsed if one.rewriter]
        compared.append((older, settings.model_copy(update=changes), labelled))
    with measured_run(state, settings, "retrieval", name, out, fail_under, resume=bool(name), by=by) as writer:
        for of, having, asked in compared:
            with bench(having, of, any(one.rerank != "never" for one in asked)) as measuring:
                opened = partial(open_form, settings=having, state=of)
                evaluate_sets(chosen, asked, opened, measuring, writer, baseline=against, timed=timed)
    if table is not None:
        write_file(table, tables.gap(read_run(writer.folder)))
