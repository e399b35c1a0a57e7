"""Build the command line of a paper: the global options of `anaphora`, and commands of its own.

Run from a checkout: `python -m papers.NAME --home HOME COMMAND …`. Nothing here is part of the wheel.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from cli import options
from cli.shared.console import stages
from cli.shared.error_handler import ErrorHandlerGroup
from cli.shared.options import Cpu, overriding
from cli.shared.resources import fetch_models, open_rewriter
from cli.shared.state import InputError, State, state_of

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from papers.bench import Bench
    from rewriter.protocol import Rewriter
    from server.settings import Settings

T = TypeVar("T")

Data = Annotated[Path | None, typer.Option(help="Folder of data sets (see docs/lab/evaluation.md).")]
Sets = Annotated[str, typer.Option(help="Data sets, by commas (see docs/lab/evaluation.md); `*` stands for anything.")]


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


def train_command(kind: str, recipe_file: Path, run: str, help: str) -> Callable[..., None]:  # noqa: A002
    """Return a command that trains a recipe of a paper's family and prints the run's folder.

    `kind` is `module:name` of the family's `RunKind`; importing the module lets `rewriter.training` know the family.
    """

    def train(
        context: typer.Context,
        data: Annotated[Path, typer.Option(help="The folder of the rows.")] = Path("."),
        name: Annotated[
            str, typer.Option(help="Name of the run; the same name goes on with a run that was cut.")
        ] = run,
        recipe: Annotated[Path, typer.Option(help="The recipe, a TOML file.")] = recipe_file,
        cpu: Cpu = False,
        threads: Annotated[int, typer.Option(min=0, help="CPU threads; 0 leaves it to torch.")] = 0,
    ) -> None:
        from cli.train import machine_of, with_fetched_base
        from rewriter.recipe import read_recipe
        from rewriter.runs import run_folder
        from rewriter.training import train as train_run

        state, of_kind = state_of(context), resolve_name(kind)
        chosen = with_fetched_base(state, read_recipe(str(recipe)))
        folder = run_folder(state.settings().home, name, of_kind)
        machine = machine_of(state, cpu, threads)
        train_run(chosen, data, folder, machine=machine, callback=lambda text: state.err.print(text))
        state.out.print(str(folder), soft_wrap=True)

    train.__doc__ = f"{help} A run that was stopped or killed goes on with the same command."
    return train


@contextmanager
def bench(settings: Settings, state: State, rerank: bool) -> Iterator[Bench]:
    """Everything systems are measured with; models are fetched first where they are missing."""
    from papers.bench import Bench, CachedEncoder, cached_reranker
    from server.chat.loaded_models import Models
    from text.modules import need_extra

    need_extra("eval", "Measuring", "ir_measures")
    fetch_models(settings, state, reranker=rerank)
    models = Models(settings)
    reranker = models.reranker() if rerank else None
    folder = settings.home / "eval"
    store = settings.index.store
    root = folder / ("collections" if store == "exact" else f"collections-{store}")
    with (
        stages(state.err) as progress,
        CachedEncoder(models.encoder(), folder / "embeddings.sqlite") as encoder,
        cached_reranker(reranker, folder / "read.sqlite") as reading,
    ):
        yield Bench(settings, encoder, models.encoder(), reranker, root, progress, reading)


@contextmanager
def open_form(form: str, settings: Settings, state: State) -> Iterator[Rewriter]:
    """The rewriter that a system's form names."""
    kinds = ("auto", "none", "prompted")
    kind, model = (form, "") if form in kinds else ("auto", form)
    flags = overriding(collection=settings.collection, rewriter__kind=kind, rewriter__model=model)
    with open_rewriter(state.settings(flags), state) as rewriter:
        yield rewriter
