"""`anaphora train`: train a rewriter by a recipe, into a run that `anaphora models promote` can make
serve."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.shared.console import open_table
from cli.shared.options import Cpu
from cli.shared.resources import fetch_progress
from cli.shared.state import InputError, State, state_of

if TYPE_CHECKING:
    from rewriter.recipe import Recipe
    from rewriter.training import Machine


def train(
    context: typer.Context,
    recipe: Annotated[
        str, typer.Argument(help="A recipe's name (see --list) or a TOML file.", show_default=False)
    ] = "",
    data: Annotated[Path, typer.Option(help="Folder that the recipe's paths are relative to.")] = Path("."),
    name: Annotated[str, typer.Option(help="Name of the run; the same name goes on with a run that was cut.")] = "",
    base: Annotated[str, typer.Option(help="Base model instead of the recipe's: hub id or folder.")] = "",
    cpu: Cpu = False,
    threads: Annotated[int, typer.Option(min=0, help="CPU threads; 0 leaves it to torch.")] = 0,
    promote: Annotated[
        bool, typer.Option("--promote", help="Make the run serve when it is finished, without asking what it is worth.")
    ] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the recipes and stop.")] = False,
) -> None:
    """Train a rewriter. A run that was stopped or killed goes on with the same command."""
    state = state_of(context)
    if listing or not recipe:
        _list(state)
        return
    from rewriter.recipe import read_recipe
    from rewriter.runs import run_folder
    from rewriter.training import train as train_run
    from server.runs import promote as make_serve

    home = state.settings().home
    if not data.is_dir():
        raise InputError(f"There is no folder {data}; --data names the one the recipe's paths start from.")
    run = name or f"{Path(recipe).stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    chosen = with_fetched_base(state, read_recipe(recipe, {"model": {"base": base}} if base else {}))
    folder = run_folder(home, run, chosen.model.kind)
    train_run(
        chosen,
        data,
        folder,
        machine=machine_of(state, cpu, threads),
        callback=lambda text: state.err.print(f"{run}: {text}"),
    )
    state.out.print(str(folder), soft_wrap=True)
    if promote:
        make_serve(home, run)
        state.err.print(f"{run} serves now.")


def with_fetched_base(state: State, recipe: Recipe) -> Recipe:
    """The recipe with the files of its base, fetched where that is one of the registry, by its name or its hub id."""
    from server.registry import ensure, registered_models

    models = registered_models().items()
    encoders = {model.hub.repo: name for name, model in models if model.hub and model.kind == "encoder"}
    with fetch_progress(state.err) as report:
        base = ensure(encoders.get(recipe.model.base, recipe.model.base), state.settings().home, report)
    return recipe.model_copy(update={"model": recipe.model.model_copy(update={"base": base})})


def machine_of(state: State, cpu: bool, threads: int) -> Machine:
    """Where a run of this command computes."""
    from rewriter.training import Machine

    return Machine(cpu_only=cpu, threads=threads, bars=state.err.is_terminal)


def _list(state: State) -> None:
    from rewriter.recipe import read_recipe, recipes

    table = open_table("recipe", "family", "base")
    for name in recipes():
        recipe = read_recipe(name)
        table.add_row(name, recipe.model.family, recipe.model.base)
    state.out.print(table)
