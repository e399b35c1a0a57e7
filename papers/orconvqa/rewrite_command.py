"""`anaphora rewrite`: what the rewriter makes of many questions, resumable."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.shared.error_handler import ExitCode
from cli.shared.options import LanguageModel, Queries, Rewriting, overriding
from cli.shared.state import state_of

if TYPE_CHECKING:
    from server.settings import Settings


def rewrite(
    context: typer.Context,
    queries: Queries,
    out: Annotated[Path, typer.Option(help="The JSON lines to write, in the order of the questions.")],
    rewriter: Rewriting = None,
    model: LanguageModel = "",
) -> None:
    """Make questions stand alone, as a chat turn would.

    What is finished is kept beside the output while the command runs. After an interruption the same
    command goes on where it stopped.
    """
    from evaluation.batches.rewrites import finished, read_queries, rewrite_all
    from text.files import text_writer

    state = state_of(context)
    settings = state.settings(overriding(rewriter__kind=rewriter, llm__model=model))
    lines = read_queries(queries)
    label = label_of(settings)
    partial = out.with_name(f"{out.name}.partial")
    records = finished(out, lines, label) | finished(partial, lines, label)
    if records:
        state.err.print(f"{len(records)} of {len(lines)} questions were finished before.")
    if len(records) < len(lines):
        from cli.shared.console import progress
        from cli.shared.resources import fetch_models, open_rewriter

        if settings.rewriter.kind == "prompted":
            fetch_models(settings, state, encoder=False, reranker=False, llm=True)
        try:
            with (
                open_rewriter(settings, state) as used,
                progress(state.err, "rewriting", len(lines) - len(records)) as advance,
            ):
                records = rewrite_all(
                    used,
                    label,
                    lines,
                    records,
                    partial,
                    workers=settings.llm.parallel,
                    seconds=settings.rewriter.timeout_seconds,
                    advance=advance,
                )
        except KeyboardInterrupt:
            kept = len(finished(out, lines, label) | finished(partial, lines, label))
            state.err.print(f"\n{kept} of {len(lines)} questions are kept in {partial}; the same command goes on.")
            raise
    with text_writer(out) as file:
        file.writelines(records[line.id].line() for line in lines)
    partial.unlink(missing_ok=True)
    rewritten = sum(record.decision in ("rewrite", "expand") for record in records.values())
    failures = sum(record.decision == "failed" for record in records.values())
    refused = sum(record.decision == "refused" for record in records.values())
    state.err.print(
        f"Wrote {out}: {len(lines)} questions, {rewritten} rewritten, {refused} rewrites refused, {failures} failed.",
    )
    if failures == len(lines):
        raise typer.Exit(ExitCode.LLM)


def label_of(settings: Settings) -> str:
    """Names the rewriter and everything in the settings that decides what it writes."""
    kind = settings.rewriter.kind
    if kind == "none":
        return kind
    if kind == "auto":
        from server.rewriters import fingerprint

        return fingerprint(settings)
    asked = settings.rewriter.remote_name or settings.llm.remote_name
    return ":".join((kind, settings.llm.model, asked, str(settings.rewriter.history_turns)))
