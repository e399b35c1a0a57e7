"""`anaphora why`: what of their sources many sentences cite, resumable."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from cli.shared.options import LanguageModel, overriding
from cli.shared.state import state_of
from papers.batches import make_batch


def why(
    context: typer.Context,
    source: Annotated[
        Path,
        typer.Option("--input", help="Citances, one JSON object a line (see papers/citation_summaries/README.md)."),
    ],
    out: Annotated[Path, typer.Option(help="The JSON lines to write, in the order of the citances.")],
    units: Annotated[
        Literal["sentences", "paragraphs"],
        typer.Option(help="The five best sentences, or those of the two best paragraphs."),
    ] = "sentences",
    model: LanguageModel = "",
) -> None:
    """Find what of a source bears on the sentence that cites it, as `Why this source?` does.

    With --model none the sentences are quoted. What is finished is kept beside the output while the command runs;
    after an interruption the same command goes on.
    """
    from papers.asking import prompts_version
    from papers.citation_summaries.batch import read_citances, why_row
    from papers.citation_summaries.retelling import PROMPTS
    from papers.citation_summaries.setups import WhyPlan

    state = state_of(context)
    settings = state.settings(overriding(llm__model=model))
    plan = WhyPlan(units)
    prompts = prompts_version(*PROMPTS.values())
    label = ":".join((plan.name, prompts, settings.llm.model, settings.llm.model_name, settings.index.encoder))
    rows = make_batch(
        state, settings, read_citances(source), out, label, "looking for sentences",
        lambda line, asker, encoder: why_row(line, plan, asker, encoder), encoding=True,
    )  # fmt: skip
    silent = sum(not row["shown"] for row in rows.values())
    state.err.print(f"Wrote {out}: {len(rows)} citances; {silent} sources do not seem to say so.")
