"""Write down what a rewriter makes of many questions; an interrupted command goes on."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.shared.error_handler import ExitCode
from cli.shared.options import LanguageModel, Queries, Rewriting, overriding
from cli.shared.state import state_of

if TYPE_CHECKING:
    from evaluation.questions import Question
    from evaluation.run_folder import InputLine
    from server.settings import Settings


def rewrite(
    context: typer.Context,
    queries: Queries,
    out: Annotated[Path, typer.Option(help="The JSON lines to write, in the order of the questions.")],
    rewriter: Rewriting = None,
    model: LanguageModel = "",
) -> None:
    """Make questions stand alone, as a chat turn would; what is finished is kept beside the output meanwhile."""
    import asyncio

    from cli.shared.console import progress
    from cli.shared.resources import fetch_models, open_rewriter
    from evaluation.questions import read_questions
    from evaluation.run_folder import InputLine, finished_rows, make_rows
    from server.settings import PARALLEL
    from server.turn.search import rewrite_within
    from text.files import text_writer

    state = state_of(context)
    settings = state.settings(overriding(rewriter__kind=rewriter, llm__model=model))
    questions = [judged.question for judged in read_questions(queries)]
    lines = [InputLine(question.id, question) for question in questions]
    label, partial = label_of(settings), out.with_name(f"{out.name}.partial")
    done = {name: row for name, row in finished_rows(partial, lines, label).items() if row["decision"] != "failed"}
    if done:
        state.err.print(f"{len(done)} of {len(lines)} questions were finished before.")
    if settings.rewriter.kind == "prompted":
        fetch_models(settings, state, encoder=False, reranker=False, llm=True)
    with (
        open_rewriter(settings, state) as used,
        progress(state.err, "rewriting", len(lines) - len(done)) as advance,
    ):

        async def make(line: InputLine[Question]) -> dict[str, Any]:
            seconds, question = settings.retrieval.profile.rewrite_seconds, line.asked
            made = await rewrite_within(seconds, used, question.conversation, question.text, blocking=True)
            return {"id": line.id, "question": question.text, "rewriter": label, **asdict(made)}

        at_once = PARALLEL
        rows = asyncio.run(make_rows(lines, done, partial, label, make, at_once=at_once, advance=advance))
    with text_writer(out) as file:
        file.writelines(json.dumps(rows[line.id], ensure_ascii=False) + "\n" for line in lines)
    partial.unlink(missing_ok=True)
    decisions = [row["decision"] for row in rows.values()]
    rewritten = decisions.count("rewrite") + decisions.count("expand")
    failed = decisions.count("failed")
    state.err.print(f"Wrote {out}: {len(lines)} questions, {rewritten} rewritten, {failed} failed.")
    if failed == len(lines):
        raise typer.Exit(ExitCode.LLM)


def label_of(settings: Settings) -> str:
    """Names the rewriter and everything in the settings that decides what it writes."""
    from server.rewriters import fingerprint

    kind = settings.rewriter.kind
    if kind == "auto":
        return fingerprint(settings)
    return (
        kind
        if kind == "none"
        else ":".join((kind, settings.llm.model, str(settings.retrieval.profile.history_messages)))
    )
