"""`anaphora standalone`: many quotes made readable away from their pages, resumable."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from cli.shared.options import LanguageModel, overriding
from cli.shared.state import state_of
from papers.batches import make_batch


def standalone(
    context: typer.Context,
    source: Annotated[
        Path, typer.Option("--input", help="Quotes, one JSON object a line (see papers/decontextualization/README.md).")
    ],
    out: Annotated[Path, typer.Option(help="The JSON lines to write, in the order of the quotes.")],
    method: Annotated[
        Literal["insert", "prompted"],
        typer.Option(help="Put answers behind what they explain, or have the model rewrite freely."),
    ] = "insert",
    model: LanguageModel = "",
) -> None:
    """Make quotes readable away from their pages, as `Make readable` does.

    With --model none by rules alone. What is finished is kept beside the output while the command runs; after an
    interruption the same command goes on.
    """
    from papers.decontextualization.batch import quote_row, read_quotes
    from papers.decontextualization.variants import StandalonePlan

    state = state_of(context)
    settings = state.settings(overriding(llm__model=model))
    plan = StandalonePlan(method)
    label = ":".join((plan.version, settings.llm.model, settings.llm.model_name))
    rows = make_batch(
        state, settings, read_quotes(source), out, label, "making readable",
        lambda line, asker, encoder: quote_row(line, plan, asker, encoder), encoding=False,
    )  # fmt: skip
    changed = sum(any(span["kind"] != "kept" for span in row["spans"]) for row in rows.values())
    refused = sum(bool(row["refused"]) for row in rows.values())
    state.err.print(f"Wrote {out}: {len(rows)} quotes, {changed} changed; of {refused} something was refused.")
