"""`anaphora rewrite`: what the rewriter makes of many questions, resumable."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.shared.error_handler import ExitCode
from cli.shared.state import state_of

if TYPE_CHECKING:
    from cli.shared.queries import QueryLine
    from rewriter.protocol import Rewrite, Rewriter
    from server.settings import Settings

GIVE_UP_AFTER = 20
"""Failures in a row from the beginning of a run after which the language model is taken to be unusable."""


class RewriterKind(StrEnum):
    """What makes a follow-up stand alone."""

    AUTO = "auto"
    NONE = "none"
    PROMPTED = "prompted"


class RewriterUnusable(Exception):
    """Nothing but failures came from the rewriter."""


def rewrite(
    context: typer.Context,
    queries: Annotated[Path, typer.Option(help="Questions, one JSON object a line (see docs/cli.md).")],
    out: Annotated[Path, typer.Option(help="The JSON lines to write, in the order of the questions.")],
    rewriter: Annotated[RewriterKind | None, typer.Option(help="The rewriter (rewriter.kind).")] = None,
    model: Annotated[str, typer.Option(help="The language model (llm.model).")] = "",
) -> None:
    """Make questions stand alone, as a chat turn would.

    What is finished is kept beside the output while the command runs. After an interruption the same
    command goes on where it stopped.
    """
    from cli.shared.queries import read_queries
    from cli.shared.rewrite_records import Record, finished
    from text.files import text_writer

    state = state_of(context)
    overrides: dict[str, Any] = {}
    if rewriter is not None:
        overrides["rewriter"] = {"kind": rewriter.value}
    if model:
        overrides["llm"] = {"model": model}
    settings = state.settings(overrides)
    lines = read_queries(queries)
    label = label_of(settings)
    partial = out.with_name(f"{out.name}.partial")
    records = finished(out, lines, label) | finished(partial, lines, label)
    if records:
        state.err.print(f"{len(records)} of {len(lines)} questions were finished before.")
    open_lines = [line for line in lines if line.id not in records]
    failures = 0

    if open_lines:
        from cli.shared.progress import progress
        from cli.shared.resources import fetch_models, open_rewriter

        if settings.rewriter.kind == "prompted":
            fetch_models(settings, state, encoder=False, reranker=False, llm=True)
        out.parent.mkdir(parents=True, exist_ok=True)
        try:
            with (
                open_rewriter(settings, state) as used,
                partial.open("a", encoding="utf-8") as keeping,
                progress(state.err, "rewriting", len(open_lines)) as advance,
            ):
                limit = settings.rewriter.timeout_seconds
                for line, made in in_parallel(used, open_lines, settings.llm.parallel, limit):
                    records[line.id] = record = Record.of(line, made, label)
                    keeping.write(record.line())
                    keeping.flush()
                    failures += made.decision == "failed"
                    if failures == GIVE_UP_AFTER == len(records):
                        raise RewriterUnusable(
                            f"The first {failures} questions all failed ({made.reason}). "
                            "`anaphora doctor` checks the language model; the same command then goes on."
                        )
                    advance()
        except KeyboardInterrupt:
            state.err.print(
                f"\n{len(records)} of {len(lines)} questions are kept in {partial}; the same command goes on.",
            )
            raise
    with text_writer(out) as file:
        file.writelines(records[line.id].line() for line in lines)
    partial.unlink(missing_ok=True)
    rewritten = sum(record.decision in ("rewrite", "expand") for record in records.values())
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
    return ":".join((kind, settings.llm.model, settings.llm.remote_name, str(settings.rewriter.history_turns)))


def in_parallel(
    rewriter: Rewriter, lines: Sequence[QueryLine], workers: int, seconds: float
) -> Iterator[tuple[QueryLine, Rewrite]]:
    """Each question with its rewrite as it comes; no more than `workers` are under way, each within a turn's limit."""
    from server.turn.search import rewrite_within

    def rewritten(line: QueryLine) -> Rewrite:
        return asyncio.run(rewrite_within(seconds, rewriter, line.conversation, line.text, blocking=True))

    waiting = iter(lines)
    with ThreadPoolExecutor(workers) as pool:
        running: dict[Future[Rewrite], QueryLine] = {}
        while True:
            for line in islice(waiting, workers - len(running)):
                running[pool.submit(rewritten, line)] = line
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
