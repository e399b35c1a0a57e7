"""`anaphora eval rewriting`: rewriters against what people wrote."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from cli.shared.options import Every, FailUnder, Name, Out, listed, measured_run
from cli.shared.state import state_of
from papers.command_line import Data, bench, open_form


def rewriting(
    context: typer.Context,
    sets: Annotated[str, typer.Option(help="Sets with rewrites by people, or JSONL files of examples, by commas.")],
    data: Data = None,
    rewriters: Annotated[
        str, typer.Option(help="Rewriters by commas: none, auto, prompted, a run's id or a folder; tests: first.")
    ] = "none,auto",
    every: Every = 1,
    name: Name = "",
    out: Out = None,
    fail_under: FailUnder = None,
) -> None:
    """Compare rewriters with what people wrote: text measures, the decision to rewrite, calibration, time."""
    from papers.bench import rewrites_by_form
    from papers.orconvqa import rewriting as measured

    state = state_of(context)
    settings = state.settings()
    chosen = {one: measured.questions(measured.load_examples(one, data, every)) for one in listed(sets)}
    with (
        measured_run(state, settings, "rewriting", name, out, fail_under, resume=bool(name)) as writer,
        bench(settings, state, rerank=False) as measuring,
    ):
        opened = partial(open_form, settings=settings, state=state)
        for set_name, asked in chosen.items():
            made = rewrites_by_form(listed(rewriters), asked, opened, measuring.progress)
            measured.measure(Path(set_name).name, asked, made, measuring.encoder, writer)
        writer.notes.append(f"similarity is the cosine of embeddings by {measuring.plain.name}.")
