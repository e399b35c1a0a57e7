"""`anaphora eval`: measuring retrieval, rewriting, answers and dialogs; comparing runs, and showing them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from cli.eval_answerability import answerability
from cli.eval_answers import answers
from cli.eval_candidates import candidates
from cli.eval_check import check
from cli.eval_pdf import pdf
from cli.eval_qasper import qasper
from cli.eval_standalone import standalone
from cli.eval_why import why
from cli.shared.evaluating import bench, listed, measured_run, open_form
from cli.shared.options import By, Data, Every, FailUnder, Name, Out, Run, Sets, overriding
from cli.shared.state import state_of

app = typer.Typer(help="Measure retrieval, rewriting, answers and dialogs, and compare runs.", no_args_is_help=True)

app.command()(answers)
app.command()(answerability)
app.command()(candidates)
app.command()(check)
app.command()(pdf)
app.command()(qasper)
app.command()(standalone)
app.command()(why)


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
        _write(table, tables.gap(read_run(writer.folder)))


@app.command()
def rewriting(
    context: typer.Context,
    sets: Annotated[str, typer.Option(help="Sets with rewrites by people, or JSONL files of examples, by commas.")],
    data: Data = None,
    rewriters: Annotated[
        str, typer.Option(help="Rewriters by commas: none, auto, prompted, a run's id or a folder; tests: first.")
    ] = "none,auto",
    every: Every = 1,
    by: By = None,
    name: Name = "",
    out: Out = None,
    fail_under: FailUnder = None,
) -> None:
    """Compare rewriters with what people wrote: text measures, the decision to rewrite, calibration, time."""
    from evaluation import rewriting as measured
    from evaluation.retrieval import rewrites_by_form

    state = state_of(context)
    settings = state.settings()
    chosen = {one: measured.questions(measured.load_examples(one, data, every)) for one in listed(sets)}
    with (
        measured_run(state, settings, "rewriting", name, out, fail_under, resume=bool(name), by=by) as writer,
        bench(settings, state, rerank=False) as measuring,
    ):
        opened = partial(open_form, settings=settings, state=state)
        for set_name, asked in chosen.items():
            made = rewrites_by_form(listed(rewriters), asked, opened, measuring.progress)
            measured.measure(Path(set_name).name, asked, made, measuring.encoder, writer)
        writer.notes.append(f"similarity is the cosine of embeddings by {measuring.plain.name}.")


@app.command()
def dialogs(
    context: typer.Context,
    folder: Annotated[Path, typer.Option(help="Folder with propositions.jsonl and dialogs.<split>.jsonl.")],
    split: Annotated[str, typer.Option(help="Which dialogs.")] = "dev",
    encoder: Annotated[
        str, typer.Option(help="QRelScore's encoder: hub id, folder or a registered name; `none` leaves QRelScore out.")
    ] = "",
    language_model: Annotated[str, typer.Option(help="QRelScore's causal model: hub id, folder, .gguf file.")] = "",
    every: Every = 1,
    name: Name = "",
    out: Out = None,
    fail_under: FailUnder = None,
) -> None:
    """Measure written dialogs: QRelScore, coherence, repetition, grounding."""
    from evaluation import dialogs as measured
    from evaluation.metrics.relevance import ENCODER, LANGUAGE_MODEL, QRelScore
    from server.registry import resolve

    state = state_of(context)
    settings = state.settings()
    questions, grounded, propositions = measured.load(folder, split)
    models = [resolve(encoder or ENCODER, settings.home), resolve(language_model or LANGUAGE_MODEL, settings.home)]
    scorer = None if encoder == "none" else QRelScore(*models)
    with (
        measured_run(state, settings, "dialogs", name, out, fail_under) as writer,
        bench(settings, state, rerank=False) as measuring,
    ):
        measured.measure(
            folder.resolve().name,
            questions[::every],
            grounded[::every],
            propositions,
            measuring.encoder,
            scorer,
            writer,
            measuring.progress,
        )
        writer.notes.append(f"coherence by {measuring.plain.name}.")
        if scorer is not None:
            writer.notes.append(f"QRelScore by {scorer.name}.")


@app.command()
def sets(context: typer.Context, data: Data = None) -> None:
    """List the data sets, and which of them are in the folder of --data."""
    from evaluation import sets as adapters
    from evaluation.errors import EvaluationError

    state = state_of(context)
    for name in adapters.NAMES:
        line = name
        if data is not None and ":" not in name:
            try:
                found = adapters.load_set(name, data)
                levels = ", ".join(level.name for level in found.levels)
                line += f": {len(found.questions)} questions, {len(found.judged)} judged by {levels}"
            except EvaluationError as error:
                line += f": {error}"
        state.out.print(line, soft_wrap=True)


@app.command()
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
    from evaluation.reports.compare import compare as compared
    from evaluation.reports.runs import read_run

    state = state_of(context)
    pairs = [pair.rsplit("=", 1) for pair in listed(systems)]
    if any(len(pair) != 2 for pair in pairs):
        raise EvaluationError("--systems takes pairs such as typed:rrf=auto:rrf, by commas.")
    found = compared(
        read_run(before),
        read_run(after),
        measures=listed(measures),
        systems={old: new for old, new in pairs} or None,
        shown=shown,
    )
    state.out.print(tables.table(reports.DIFFERENCE_HEAD, reports.difference_rows(found)), soft_wrap=True)
    for title, changes in (("Winners", found.winners), ("Losers", found.losers)):
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
        _write(html, reports.html(found.after, found))
        state.err.print(f"Wrote {html}.")
    if fail_under is not None:
        lost = [one for one in found.differences if one.difference < fail_under]
        if lost:
            raise BelowThreshold(
                "; ".join(f"{d.set}/{d.level}/{d.after_system}/{d.measure}: {d.difference:+.4f}" for d in lost)
                + f"; each must be at least {fail_under:+g}."
            )


@app.command()
def report(
    context: typer.Context,
    run: Run,
    out: Annotated[Path | None, typer.Option(help="File to write; by default `report.html` in the run.")] = None,
) -> None:
    """Write a run as one HTML page with plots, which opens without internet."""
    from evaluation.reports import page as reports
    from evaluation.reports.runs import read_run

    path = out or run / "report.html"
    _write(path, reports.html(read_run(run)))
    state_of(context).err.print(f"Wrote {path}.")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
