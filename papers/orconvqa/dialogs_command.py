"""`anaphora eval dialogs`: written dialogs, without anybody who judges them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.shared.console import stages
from cli.shared.options import Every, FailUnder, Name, Out, measured_run
from cli.shared.state import state_of


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
    """Measure written dialogs: QRelScore, repetition, grounding."""
    from papers.orconvqa import dialogs as measured
    from papers.orconvqa.relevance import ENCODER, LANGUAGE_MODEL, QRelScore
    from server.registry import resolve

    state = state_of(context)
    settings = state.settings()
    questions, propositions = measured.load(folder, split)
    models = [resolve(encoder or ENCODER, settings.home), resolve(language_model or LANGUAGE_MODEL, settings.home)]
    scorer = None if encoder == "none" else QRelScore(*models)
    with (
        measured_run(state, settings, "dialogs", name, out, fail_under) as writer,
        stages(state.err) as progress,
    ):
        measured.measure(folder.resolve().name, questions[::every], propositions, scorer, writer, progress)
        if scorer is not None:
            writer.notes.append(f"QRelScore by {scorer.name}.")
