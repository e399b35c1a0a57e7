"""Build the command line of a paper: the global options of `anaphora`, and commands of its own.

Run from a checkout: `python -m papers.NAME --home HOME COMMAND …`. Nothing here is part of the wheel.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from cli import options
from cli.shared.error_handler import ErrorHandlerGroup
from cli.shared.resources import fetch_models
from cli.shared.state import InputError, State

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from server.settings import Settings

T = TypeVar("T")


def paper_app(help: str, **commands: Callable[..., Any]) -> typer.Typer:  # noqa: A002  (typer's own word)
    """Return an application with these commands, named by their keywords; `_` becomes `-`."""
    app = typer.Typer(cls=ErrorHandlerGroup, help=help, no_args_is_help=True, pretty_exceptions_enable=False)
    app.callback()(options)
    for name, command in commands.items():
        app.command(name.replace("_", "-"))(command)
    return app


def data_folder(data: Path | None) -> Path:
    """The folder of data sets. Raises InputError where none was given."""
    if data is None:
        raise InputError("Say where the data sets are: --data.")
    return data


def deadline(minutes: float) -> float:
    """When so many minutes are over (`time.monotonic`); never for 0."""
    return time.monotonic() + 60 * minutes if minutes > 0 else math.inf


def with_model(settings: Settings, state: State, work: Callable[[BaseChatModel | None], Awaitable[T]]) -> T:
    """Run `work` with the settings' language model, which is fetched first; None stands for no model."""
    from server.engines import open_engine

    fetch_models(settings, state, encoder=False, reranker=False, llm=True)
    with open_engine(settings) as engine:

        async def run() -> T:
            try:
                return await work(engine.chat_model())
            finally:
                await engine.aclose()

        return asyncio.run(run())
