"""What commands share that make a row of every line of a file: the models, the progress, going on, the output."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cli.shared.console import progress
from cli.shared.state import State
from papers.command_line import with_model

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from evaluation.run_folder import InputLine
    from index.encoders import Encoder
    from papers.asking import QuoteAsker
    from server.settings import Settings

T = TypeVar("T")


def make_batch(
    state: State,
    settings: Settings,
    lines: Sequence[InputLine[T]],
    out: Path,
    label: str,
    doing: str,
    make: Callable[[InputLine[T], QuoteAsker | None, Encoder | None], Awaitable[dict[str, Any]]],
    *,
    encoding: bool,
) -> dict[str, dict[str, Any]]:
    """The rows of all lines by id, written to `out` in the order of the lines; `label` tells how they are made.

    `make` is given the settings' language model, if any, and the encoder where it is `encoding`, or where there is a
    model. Without a language model an encoder that cannot be had is done without.
    """
    from evaluation.run_folder import finished_rows, make_rows
    from server.settings import PARALLEL
    from text.files import text_writer

    partial = out.with_name(f"{out.name}.partial")
    asked = settings.llm.model.casefold() != "none"
    rows = finished_rows(partial, lines, label)
    if rows:
        state.err.print(f"{len(rows)} of {len(lines)} lines were finished before.")
    if len(rows) < len(lines):
        from papers.asking import QuoteAsker

        encoder = _encoder(state, settings, asked) if asked or encoding else None
        with progress(state.err, doing, len(lines) - len(rows)) as advance:

            async def made(chat_model: BaseChatModel | None) -> dict[str, dict[str, Any]]:
                asker = QuoteAsker(chat_model, settings.llm.timeout_seconds) if chat_model is not None else None
                return await make_rows(
                    lines, rows, partial, label, lambda line: make(line, asker, encoder),
                    at_once=PARALLEL if asker is not None else 1, advance=advance,
                )  # fmt: skip

            rows = with_model(settings, state, made)
    with text_writer(out) as file:
        file.writelines(json.dumps(rows[line.id], ensure_ascii=False) + "\n" for line in lines)
    partial.unlink(missing_ok=True)
    return rows


def _encoder(state: State, settings: Settings, asked: bool) -> Encoder | None:
    from cli.shared.resources import fetch_models
    from index.errors import ModelUnavailable
    from server.chat.loaded_models import Models
    from server.registry import RegistryError

    try:
        fetch_models(settings, state, reranker=False)
        return Models(settings).encoder()
    except (ModelUnavailable, RegistryError) as error:
        if asked:
            raise
        state.err.print(f"Only words are compared, not meaning: {error}", style="yellow")
        return None
