"""`anaphora eval`: measure retrieval and answers, choose settings by it, compare runs, and show them."""

from __future__ import annotations

import math
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from cli.calibrate import calibrate
from cli.shared.options import (
    Data,
    Every,
    FailUnder,
    LanguageModel,
    Name,
    Out,
    Run,
    Sets,
    bench,
    listed,
    measured_run,
    open_form,
    overriding,
)
from cli.shared.state import state_of

app = typer.Typer(help="Measure retrieval and answers, choose settings by it, and compare runs.", no_args_is_help=True)


@app.command()
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
    name: Name = "",
    out: Out = None,
    fail_under: FailUnder = None,
) -> None:
    """Search data sets, or questions of your own, with several settings; MAP, recall, nDCG and MRR of each.

    Embeddings, scores of the cross-encoder and rewrites of a language model are kept: a second run is quick.
    """
    from evaluation.questions import EvaluationError
    from evaluation.retrieval import evaluate_sets
    from evaluation.sets import load_sets, own_questions
    from evaluation.systems import DEFAULT_SYSTEMS, parse

    state = state_of(context)
    parsed = list(dict.fromkeys(map(parse, listed(systems) or DEFAULT_SYSTEMS)))
    against = parse(baseline).name
    settings = state.settings(overriding(collection=collection))
    chosen = load_sets(listed(sets), data, every)
    if questions is not None:
        chosen.append(own_questions(questions).every(every))
    if not chosen:
        raise EvaluationError("Say what to measure: --sets with --data, or --questions with --collection.")
    with (
        measured_run(state, settings, "retrieval", name, out, fail_under, resume=bool(name)) as writer,
        bench(settings, state, any(system.rerank != "never" for system in parsed)) as measuring,
    ):
        opened = partial(open_form, settings=settings, state=state)
        evaluate_sets(chosen, parsed, opened, measuring, writer, baseline=against, timed=timed)


@app.command()
def answers(
    context: typer.Context,
    sets: Sets,
    name: Annotated[str, typer.Option(help="Name of the run's folder; the same name goes on with it.")],
    data: Data = None,
    model: LanguageModel = "",
    minutes: Annotated[float, typer.Option(help="Stop asking after this; 0 asks everything.")] = 0,
    judge: Annotated[bool, typer.Option("--judge", help="Let the language model judge every answer.")] = False,
    every: Every = 1,
    out: Out = None,
    fail_under: FailUnder = None,
) -> None:
    """Answer every question of data sets as a chat does; text measures, citations, refusals and times.

    Finished turns are kept: after an interruption, or with --minutes, the same command goes on.
    """
    from cli.shared.resources import fetch_models, open_rewriter
    from evaluation.answers import evaluate_answers
    from evaluation.judge import rubric
    from evaluation.sets import load_sets
    from server.engines import open_engine
    from server.rewriters import open_pairs

    state = state_of(context)
    settings = state.settings(overriding(llm__model=model))
    chosen = load_sets(listed(sets), data, every)
    with measured_run(state, settings, "answers", name, out, fail_under, resume=True) as writer, ExitStack() as stack:
        if judge:
            version = rubric().version
            writer.notes.append(f"judge: the model itself, rubric {version}; its prompts stand in judge.jsonl.")
        measuring = stack.enter_context(bench(settings, state, settings.retrieval.rerank != "never"))
        fetch_models(settings, state, encoder=False, reranker=False, llm=True)
        rewriter = stack.enter_context(open_rewriter(settings, state))
        with state.err.status("starting the language model"):
            engine = stack.enter_context(open_engine(settings))
        missing = evaluate_answers(
            chosen,
            rewriter,
            engine.chat_model(),
            engine.name,
            measuring,
            writer,
            aclose=engine.aclose,
            seconds=60 * minutes if minutes > 0 else math.inf,
            judged=judge,
            pairs=open_pairs(settings),
        )
        if missing:
            state.err.print(f"{missing} questions are left: the same command goes on with them.")
            raise typer.Exit


@app.command()
def compare(
    context: typer.Context,
    before: Run,
    after: Annotated[Path, typer.Argument(help="Folder of the run to compare with it.")],
    systems: Annotated[
        str, typer.Option(help="Pairs BEFORE=AFTER by commas, where other systems than those of one name are meant.")
    ] = "",
    measures: Annotated[str, typer.Option(help="Measures by commas; the first picks winners and losers.")] = "",
    most: Annotated[int, typer.Option("--shown", min=0, help="How many winners and losers to show.")] = 5,
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
    from text.files import write_text

    state = state_of(context)
    pairs = [pair.rsplit("=", 1) for pair in listed(systems)]
    if any(len(pair) != 2 for pair in pairs):
        raise EvaluationError("--systems takes pairs such as typed:rrf=auto:rrf, by commas.")
    runs = read_run(before), read_run(after)
    named = {old: new for old, new in pairs} or None
    comparison = report.compare(*runs, measures=listed(measures), systems=named, most=most)
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
    if fail_under is not None:
        lost = [test for test in comparison.differences if test.difference < fail_under]
        if lost:
            raise BelowThreshold(
                "; ".join(f"{d.set}/{d.level}/{d.system}/{d.measure}: {d.difference:+.4f}" for d in lost)
                + f"; each must be at least {fail_under:+g}."
            )


@app.command()
def report(
    context: typer.Context,
    run: Run,
    out: Annotated[Path | None, typer.Option(help="File to write; by default `report.html` in the run.")] = None,
) -> None:
    """Write a run as one HTML page with plots, which opens without internet."""
    from evaluation.report import html
    from evaluation.run_folder import read_run
    from text.files import write_text

    path = out or run / "report.html"
    write_text(path, html(read_run(run)))
    state_of(context).err.print(f"Wrote {path}.")


app.command()(calibrate)
