"""`anaphora train`: train a rewriter by a recipe, into a run that `anaphora models promote` can make serve."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.state import InputError, State, state_of

if TYPE_CHECKING:
    from collections.abc import Callable

TERMS = "terms"
"""The recipe name of the packaged term rewriter; a TOML file without `[model]` is one of that family too."""


def train(
    context: typer.Context,
    recipe: Annotated[
        str, typer.Argument(help="A recipe's name (see --list) or a TOML file.", show_default=False)
    ] = "",
    data: Annotated[Path, typer.Option(help="Folder that the recipe's paths are relative to.")] = Path("."),
    name: Annotated[str, typer.Option(help="Name of the run; the same name goes on with a run that was cut.")] = "",
    base: Annotated[
        str, typer.Option(help="Base model instead of the recipe's: hub id, folder, GGUF, or config:<size>.")
    ] = "",
    lora: Annotated[
        bool | None, typer.Option("--lora/--full", help="Low-rank adaptation or all weights, whatever the recipe says.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed instead of the recipe's.")] = None,
    cpu: Annotated[bool, typer.Option("--cpu", help="Leave GPUs alone.")] = False,
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
    from rewriter.runs import promote as make_serve
    from rewriter.runs import run_folder

    home = state.settings().home
    if not data.is_dir():
        raise InputError(f"There is no folder {data}; --data names the one the recipe's paths start from.")
    run = name or f"{Path(recipe).stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    folder = run_folder(home, run)
    train_run(state, recipe, data, folder, base=base, lora=lora, seed=seed, cpu=cpu, threads=threads)
    state.out.print(str(folder), soft_wrap=True, highlight=False, markup=False)
    if promote:
        make_serve(home, run)
        state.err.print(f"{run} serves now.", markup=False)


def train_run(
    state: State,
    recipe: str,
    data: Path,
    folder: Path,
    *,
    base: str = "",
    lora: bool | None = None,
    seed: int | None = None,
    cpu: bool = False,
    threads: int = 0,
) -> None:
    """Train `recipe`, of whatever family, in `folder`, talking to the error console.

    Raises MissingExtra, RecipeError, ExampleError, TrainingError.
    """
    if is_terms(recipe):
        _train_terms(state, recipe, data, folder, base=base, seed=seed, cpu=cpu)
        return
    from rewriter.training.recipe import read_recipe
    from rewriter.training.run import train as run_training
    from rewriter.training.stages import Machine

    changes: dict[str, Any] = {}
    if base:
        changes["model"] = {"base": resolved(state, base)}
    if seed is not None:
        changes["seed"] = seed
    chosen = read_recipe(recipe, changes)
    if lora is not None and lora != (chosen.lora is not None):
        chosen = read_recipe(recipe, changes | {"lora": {} if lora else None})
    run_training(
        chosen,
        data,
        folder,
        machine=Machine(cpu_only=cpu, threads=threads, bars=state.err.is_terminal),
        callback=_telling(state, folder.name),
    )


def is_terms(recipe: str) -> bool:
    """Whether a recipe trains a term rewriter: it has no `[model]`."""
    if recipe == TERMS:
        return True
    path = Path(recipe)
    if path.suffix != ".toml" or not path.is_file():
        return False
    import tomllib

    try:
        return "model" not in tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"The recipe {path} is no TOML: {error}.") from error


def resolved(state: State, base: str) -> str:
    """A base of the catalogue as the path it is fetched to; anything else as it is."""
    from server.registry import catalogue, resolve

    return resolve(base, state.settings().home) if base in catalogue() else base


def _train_terms(
    state: State, recipe: str, data: Path, folder: Path, *, base: str, seed: int | None, cpu: bool
) -> None:
    from dataclasses import replace

    from text.extras import need_extra

    need_extra("train", "Training", "torch", "transformers", "onnx")
    import torch

    from rewriter.load import DESCRIPTION
    from rewriter.terms.recipe import DEFAULT, read_recipe
    from rewriter.terms.training import train as train_terms

    if (folder / DESCRIPTION).is_file():
        state.err.print(f"{folder.name} is finished.", markup=False)
        return
    chosen = read_recipe(DEFAULT if recipe == TERMS else Path(recipe))
    if seed is not None:
        chosen = replace(chosen, seed=seed)
    settings = state.settings()
    if not base and chosen.base.rpartition("/")[2].lower() == settings.index.encoder:
        # The recipe's hub id is the very encoder the home has for searching.
        base = settings.index.encoder
    tell = _telling(state, folder.name)
    last = [-1]

    def progress(step: int, steps: int, loss: float) -> None:
        if (percent := 100 * step // steps) > last[0]:
            last[0] = percent
            tell(f"step {step}/{steps}: loss {loss:.3f}")

    device = "cuda" if torch.cuda.is_available() and not cpu else "cpu"
    train_terms(chosen, data, folder, base=resolved(state, base) if base else "", device=device, progress=progress)


def _telling(state: State, run: str) -> Callable[[str], None]:
    return lambda text: state.err.print(f"{run}: {text}", markup=False, highlight=False)


def _list(state: State) -> None:
    from rich.table import Table

    from rewriter.training.recipe import read_recipe, recipes

    table = Table("recipe", "family", "base", "stages", box=None, pad_edge=False, header_style="bold")
    table.add_row(TERMS, "terms", "all-minilm-l6-v2", "terms")
    for name in recipes():
        recipe = read_recipe(name)
        table.add_row(name, recipe.model.family, recipe.model.base, ", ".join(stage.name for stage in recipe.stage))
    state.out.print(table)
