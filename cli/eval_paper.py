"""`anaphora eval paper`: the core paper's result tables, measured on the data that is present."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.eval_options import Data, Every, Name, Out, bench, collect, listed, runs_folder
from cli.state import state_of

SYSTEMS = ("typed:rrf", "context:rrf", "typed:legs")
UNIT_SYSTEMS = ("typed:rrf", "context:rrf", "typed:legs")
SETS = ("doc2dial", "synthetic")
UNIT_SETS = ("doc2dial-spans", "doc2dial-propositions")


def paper(
    context: typer.Context,
    data: Data = None,
    rewriters: Annotated[str, typer.Option(help="Rewriters to measure, by commas; none leaves them out.")] = "auto",
    runs: Annotated[
        str, typer.Option(help="Folders of runs to add, by commas, such as those of answers and dialogs.")
    ] = "",
    every: Every = 1,
    name: Name = "",
    out: Out = None,
    page: Annotated[Path | None, typer.Option(help="Also write the page to this file.")] = None,
) -> None:
    """Print the paper's tables with our numbers beside its own, and what differs.

    With --data, retrieval and rewriting are measured first on the sets that are there; a set that is missing is
    said to be. Runs given with --runs are read and not measured again.
    """
    from evaluation import paper as tables
    from evaluation import rewriting as measured
    from evaluation.adapters import load_set
    from evaluation.errors import MissingSet
    from evaluation.retrieval import evaluate_set
    from evaluation.runs import create_run, read_run
    from evaluation.systems import parse

    state = state_of(context)
    settings = state.settings()
    found = [read_run(Path(folder)) for folder in listed(runs)]
    forms = [form for form in listed(rewriters) if form != "none"]
    if data is not None:
        folder = runs_folder(settings, out)
        writer = create_run(folder, "retrieval", f"{name}-retrieval" if name else "")
        with bench(settings, state, rerank=False) as measuring:
            for set_name in (*SETS, *UNIT_SETS):
                names = [*SYSTEMS, "human:rrf", *(f"{form}:{how}" for form in forms for how in ("rrf", "legs"))]
                try:
                    chosen = load_set(set_name, data).every(every)
                except MissingSet as error:
                    state.err.print(f"Left out: {error}", style="yellow", markup=False)
                    continue
                systems = [parse(one) for one in (names if set_name in SETS else UNIT_SYSTEMS)]
                wanted = dict.fromkeys(system.rewriter for system in systems if system.rewriter)
                rewrites = {form: collect(form, chosen.judged, settings, state, measuring) for form in wanted}
                evaluate_set(chosen, systems, rewrites, measuring, writer, baseline="typed:rrf")
            found.append(writer.finish(settings))
            writer = create_run(folder, "rewriting", f"{name}-rewriting" if name else "")
            for set_name in measured.FILES:
                try:
                    asked = measured.questions(measured.load_examples(set_name, data, every))
                except MissingSet as error:
                    state.err.print(f"Left out: {error}", style="yellow", markup=False)
                    continue
                made = {form: collect(form, asked, settings, state, measuring) for form in ("none", *forms)}
                measured.measure(set_name, asked, made, measuring.encoder, writer)
            found.append(writer.finish(settings))
    state.out.print(tables.text(found), markup=False, soft_wrap=True)
    if page is not None:
        tables.write(page, found)
