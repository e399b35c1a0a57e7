"""`anaphora eval answerability`: fit and judge the decision to answer, ask back or refuse, from the search alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.shared.options import (
    Answerable,
    By,
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
    runs_folder,
    write_file,
)
from cli.shared.state import state_of

if TYPE_CHECKING:
    from rewriter.reranking.rows import RerankExample


def answerability(
    context: typer.Context,
    data: Data = None,
    sets: Annotated[str, typer.Option(help="Sets whose questions are marked, by commas.")] = "product-*",
    split: Annotated[str, typer.Option(help="The part of sets that have several: train or dev.")] = "dev",
    fit: Annotated[
        Path | None, typer.Option(help="Fit on these questions, and write the models to this file (JSON).")
    ] = None,
    answerable: Answerable = 1.0,
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
    from evaluation import answerability as fitting
    from evaluation.reports import page as report
    from evaluation.reports import tables
    from evaluation.reports.run_folder import create_run
    from evaluation.sets import load_sets
    from server.turn.decision import models as packaged

    state = state_of(context)
    settings = state.settings()
    chosen = load_sets(listed(sets), data, split=split)
    writer = create_run(runs_folder(settings, out), "answerability", name, resume=bool(name))
    cases_path = writer.path("cases.jsonl")
    with bench(settings, state, rerank=True) as measuring, open_form("auto", settings, state) as rewriter:
        cases = fitting.collect_cases(chosen, measuring, rewriter, cases_path, answerable=answerable, foreign=foreign)
    models, rows, lines = fitting.measure_kinds(cases, None if fit else packaged(), writer)
    run = writer.finish(settings)
    state.out.print(tables.table(fitting.HEAD, rows), soft_wrap=True)
    if answers is not None:
        joined = tables.table(fitting.JOINED_HEAD, fitting.with_answers(answers, chosen, cases, models))
        state.out.print("", joined, sep="\n", soft_wrap=True)
    (run.folder / "report.html").write_text(report.html(run, extra=[fitting.plot(lines)]), "utf-8")
    if fit is not None:
        fit.write_text(
            fitting.as_json(models, fitting.recipe(cases, [eval_set.name for eval_set in chosen], split)), "utf-8"
        )
    state.err.print(f"Wrote {run.folder}.")


def answers(
    context: typer.Context,
    sets: Sets,
    name: Annotated[str, typer.Option(help="Name of the run's folder; the same name goes on with it.")],
    data: Data = None,
    model: LanguageModel = "",
    answer_tokens: Annotated[int | None, typer.Option(min=16, help="Longest answer (llm.answer_tokens).")] = None,
    minutes: Annotated[float, typer.Option(help="Stop asking after this; 0 asks everything.")] = 0,
    judge: Annotated[
        bool, typer.Option("--judge", help="Let the language model judge every answer, by the rubric.")
    ] = False,
    rubric: Annotated[Path | None, typer.Option(help="A rubric of your own for --judge.")] = None,
    every: Every = 1,
    answerable: Answerable = 1.0,
    by: By = None,
    out: Out = None,
    fail_under: FailUnder = None,
) -> None:
    """Answer every question of data sets as a chat does; text measures, citations, refusals and times.

    Finished turns are kept: after an interruption, or with --minutes, the same command goes on.
    """
    from cli.shared.resources import fetch_models, open_rewriter
    from evaluation.answering import Listening
    from evaluation.answers import evaluate_answers
    from evaluation.judge import rubric as read_rubric
    from evaluation.sets import load_sets
    from server.engines import open_engine

    state = state_of(context)
    rules = read_rubric(rubric)
    settings = state.settings(overriding(llm__model=model, llm__answer_tokens=answer_tokens))
    chosen = [eval_set.drawn(answerable) for eval_set in load_sets(listed(sets), data, every)]
    with measured_run(state, settings, "answers", name, out, fail_under, resume=True, by=by) as writer:
        if judge:
            writer.notes.append(f"judge: the model itself, rubric {rules.version}; its prompts stand in judge.jsonl.")
        with bench(settings, state, settings.retrieval.rerank != "never") as measuring:
            fetch_models(settings, state, encoder=False, reranker=False, llm=True)
            with ExitStack() as stack:
                rewriter = stack.enter_context(open_rewriter(settings, state))
                with state.err.status("starting the language model"):
                    engine = stack.enter_context(open_engine(settings))
                chat = engine.chat_model()
                missing = evaluate_answers(
                    chosen,
                    rewriter,
                    Listening(chat) if chat is not None else None,
                    engine.name,
                    measuring,
                    writer,
                    aclose=engine.aclose,
                    seconds=60 * minutes if minutes > 0 else math.inf,
                    rubric=rules if judge else None,
                )
        if missing:
            state.err.print(f"{missing} questions are left: the same command goes on with them.")
            raise typer.Exit


def candidates(
    context: typer.Context,
    out: Annotated[Path, typer.Argument(help="JSONL file to write.", show_default=False)],
    sets: Sets = "",
    data: Data = None,
    split: Annotated[str, typer.Option(help="Which dialogs, of sets that have parts.")] = "train",
    teacher: Annotated[
        bool, typer.Option("--teacher/--no-teacher", help="Note what the present cross-encoder says of each passage.")
    ] = True,
    questions: Annotated[
        Path | None, typer.Option(help="Questions of your own about an indexed collection, one JSON object a line.")
    ] = None,
    collection: Annotated[str, typer.Option("--collection", "-c", help="The collection --questions are about.")] = "",
    every: Every = 1,
) -> None:
    """Write rows to train a cross-encoder on: every judged question, and passages that the search finds for it."""
    from evaluation.candidates import candidates_of_set
    from evaluation.errors import EvaluationError
    from evaluation.sets import beir, load_sets
    from rewriter.reranking.rows import write_rows
    from server.rewriters import open_rewriter
    from text.files import replacing

    state = state_of(context)
    settings = state.settings(overriding(collection=collection))
    chosen = load_sets(listed(sets), data, every, split)
    if questions is not None:
        chosen.append(beir.own_questions(questions).every(every))
    if not chosen:
        raise EvaluationError("Say whose questions to take: --sets with --data, or --questions with --collection.")
    with bench(settings, state, teacher) as measuring:
        rewriter = open_rewriter(settings)

        def rows() -> Iterator[RerankExample]:
            for eval_set in chosen:
                yield from candidates_of_set(eval_set, rewriter, measuring)

        out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(out) as draft:
            count = write_rows(draft, rows())
    state.err.print(f"Wrote {count:,} questions to {out}.")


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
    from evaluation.reports.run_folder import read_run
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
        labelled = [replace(system, label="before") for system in parsed if system.rewriter]
        compared.append((older, settings.model_copy(update=changes), labelled))
    with measured_run(state, settings, "retrieval", name, out, fail_under, resume=bool(name), by=by) as writer:
        for of, having, compared_systems in compared:
            with bench(having, of, any(system.rerank != "never" for system in compared_systems)) as measuring:
                opened = partial(open_form, settings=having, state=of)
                evaluate_sets(chosen, compared_systems, opened, measuring, writer, baseline=against, timed=timed)
    if table is not None:
        write_file(table, tables.gap(read_run(writer.folder)))


def compare(
    context: typer.Context,
    before: Run,
    after: Annotated[Path, typer.Argument(help="Folder of the run to compare with it.")],
    systems: Annotated[
        str, typer.Option(help="Pairs BEFORE=AFTER by commas, where other systems than those of one name are meant.")
    ] = "",
    measures: Annotated[str, typer.Option(help="Measures by commas; the first picks winners and losers.")] = "",
    shown: Annotated[int, typer.Option(min=0, help="How many winners and losers to show.")] = 5,
    html: Annotated[Path | None, typer.Option(help="Also write a report to this file.")] = None,
    fail_under: Annotated[
        float | None,
        typer.Option(help="Exit with code 10 if a measure changed by less than this: 0 allows no loss at all."),
    ] = None,
) -> None:
    """Show what differs between two runs, how surely, and which questions won or lost most."""
    from evaluation.errors import BelowThreshold, EvaluationError
    from evaluation.reports import page as reports
    from evaluation.reports import tables
    from evaluation.reports.run_folder import read_run
    from evaluation.reports.tables import compare as compared

    state = state_of(context)
    pairs = [pair.rsplit("=", 1) for pair in listed(systems)]
    if any(len(pair) != 2 for pair in pairs):
        raise EvaluationError("--systems takes pairs such as typed:rrf=auto:rrf, by commas.")
    comparison = compared(
        read_run(before),
        read_run(after),
        measures=listed(measures),
        systems={old: new for old, new in pairs} or None,
        shown=shown,
    )
    differing = tables.differences(comparison)
    state.out.print(tables.table(differing.head, differing.rows), soft_wrap=True)
    for title, changes in (("Winners", comparison.winners), ("Losers", comparison.losers)):
        for change in changes:
            state.out.print(
                f"\n{title[:-1]}: {change.set} {change.question} {change.before:.3f} -> {change.after:.3f}",
                *(f"  {line}" for line in change.asked),
                *(f"  before | {line}" for line in change.before_evidence),
                *(f"  after  | {line}" for line in change.after_evidence),
                sep="\n",
                soft_wrap=True,
            )
    if html is not None:
        write_file(html, reports.html(comparison.after, comparison))
        state.err.print(f"Wrote {html}.")
    if fail_under is not None:
        lost = [difference for difference in comparison.differences if difference.difference < fail_under]
        if lost:
            raise BelowThreshold(
                "; ".join(f"{d.set}/{d.level}/{d.after_system}/{d.measure}: {d.difference:+.4f}" for d in lost)
                + f"; each must be at least {fail_under:+g}."
            )


def report(
    context: typer.Context,
    run: Run,
    out: Annotated[Path | None, typer.Option(help="File to write; by default `report.html` in the run.")] = None,
) -> None:
    """Write a run as one HTML page with plots, which opens without internet."""
    from evaluation.reports import page as reports
    from evaluation.reports.run_folder import read_run

    path = out or run / "report.html"
    write_file(path, reports.html(read_run(run)))
    state_of(context).err.print(f"Wrote {path}.")


def sets(context: typer.Context, data: Data = None) -> None:
    """List the data sets, and which of them are in the folder of --data."""
    from evaluation import sets as adapters
    from evaluation.errors import EvaluationError

    state = state_of(context)
    for name in adapters.NAMES:
        line = name
        if data is not None and ":" not in name:
            try:
                eval_set = adapters.load_set(name, data)
                levels = ", ".join(level.name for level in eval_set.levels)
                line += f": {len(eval_set.questions)} questions, {len(eval_set.judged)} judged by {levels}"
            except EvaluationError as error:
                line += f": {error}"
        state.out.print(line, soft_wrap=True)
