"""`anaphora standalone`: many quotes made readable away from their pages, resumable."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.shared.options import LanguageModel, overriding
from cli.shared.state import state_of

if TYPE_CHECKING:
    from server.engines import Engine


class Method(StrEnum):
    """How additions come into a quote."""

    INSERT = "insert"
    PROMPTED = "prompted"


def standalone(
    context: typer.Context,
    source: Annotated[Path, typer.Option("--input", help="Quotes, one JSON object a line (see docs/standalone.md).")],
    out: Annotated[Path, typer.Option(help="The JSON lines to write, in the order of the quotes.")],
    method: Annotated[
        Method, typer.Option(help="Put answers behind what they explain, or have the model rewrite freely.")
    ] = Method.INSERT,
    model: LanguageModel = "",
) -> None:
    """Make quotes readable away from their pages, as `Make readable` does.

    With --model none by rules alone. What is finished is kept beside the output while the command runs; after an
    interruption the same command goes on.
    """
    from evaluation.batches.standalone import finished_quotes, make_quotes, read_quotes
    from server.evidence.standalone import StandalonePlan
    from text.files import text_writer

    state = state_of(context)
    settings = state.settings(overriding(llm__model=model))
    lines = read_quotes(source)
    plan = StandalonePlan(method.value)
    asked = settings.llm.model.casefold() != "none"
    label = ":".join((plan.version, settings.llm.model, settings.llm.remote_name))
    partial = out.with_name(f"{out.name}.partial")
    rows = finished_quotes(partial, lines, label)
    if rows:
        state.err.print(f"{len(rows)} of {len(lines)} quotes were finished before.")
    if len(rows) < len(lines):
        from cli.shared.progress import progress
        from cli.shared.resources import fetch_models
        from server.chat.models import Models
        from server.engines import open_engine
        from server.evidence.asking import QuoteAsker

        encoder = None
        with ExitStack() as stack:
            engine: Engine | None = None
            if asked:
                fetch_models(settings, state, reranker=False, llm=True)
                encoder = Models(settings).encoder()
                engine = stack.enter_context(open_engine(settings))
            advance = stack.enter_context(progress(state.err, "making readable", len(lines) - len(rows)))

            async def make() -> dict[str, dict[str, Any]]:
                chat_model = engine.chat_model() if engine is not None else None
                asker = QuoteAsker(chat_model, settings.llm.total_seconds) if chat_model is not None else None
                at_once = settings.llm.parallel if asker is not None else 1
                try:
                    return await make_quotes(
                        lines, rows, partial, plan, label,
                        asker=asker, encoder=encoder, at_once=at_once, advance=advance,
                    )  # fmt: skip
                finally:
                    if engine is not None:
                        await engine.aclose()

            rows = asyncio.run(make())
    with text_writer(out) as file:
        file.writelines(json.dumps(rows[line.id], ensure_ascii=False) + "\n" for line in lines)
    partial.unlink(missing_ok=True)
    changed = sum(any(span["kind"] != "kept" for span in row["spans"]) for row in rows.values())
    refused = sum(bool(row["refused"]) for row in rows.values())
    state.err.print(f"Wrote {out}: {len(lines)} quotes, {changed} changed; of {refused} something was refused.")
