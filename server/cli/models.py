"""`anaphora models`: what the catalogue has, what is fetched, and fetching it.

The fetching itself is `server.catalogue`'s.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from server.cli.state import State, state_of

app = typer.Typer(help="List and fetch the models the catalogue knows.")

Name = Annotated[str, typer.Argument(help="A name from `anaphora models`.", show_default=False)]


@app.callback(invoke_without_command=True)
def list_models(ctx: typer.Context) -> None:
    """List the models: name, kind, size, licence, and whether each is fetched."""
    if ctx.invoked_subcommand is not None:
        return
    from rich.table import Table

    from server.catalogue import catalogue

    state = state_of(ctx)
    home = _home(state)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "kind", "size", "licence", "fetched", "what it is"):
        table.add_column(column, justify="right" if column == "size" else "left", overflow="fold")
    for model in catalogue().values():
        fetched = "yes" if model.fetched(home) else "no"
        size = f"{model.size / 1e6:,.0f} MB"
        table.add_row(model.name, model.kind, size, model.licence, fetched, model.description)
    state.out.print(table)


@app.command()
def fetch(
    ctx: typer.Context,
    names: Annotated[list[str], typer.Argument(help="Names from `anaphora models`.", show_default=False)],
) -> None:
    """Fetch models into the home folder, resuming what an earlier run left; verified ones are left alone."""
    from server.catalogue import fetch as fetch_model
    from server.catalogue import find, progress_bar

    state = state_of(ctx)
    home = _home(state)
    for model in [find(name) for name in names]:
        with progress_bar(state.err) as progress:
            path = fetch_model(model, home, progress)
        state.out.print(str(path), soft_wrap=True, highlight=False, markup=False)


@app.command()
def path(ctx: typer.Context, name: Name) -> None:
    """Print where a fetched model lies: the GGUF file of an LLM, the folder of anything else."""
    from server.catalogue import ModelNotFetched, find

    state = state_of(ctx)
    model, home = find(name), _home(state)
    if not model.fetched(home):
        raise ModelNotFetched(f"{name} is not in {home}. Fetch it with `anaphora models fetch {name}`.")
    state.out.print(str(model.path(home)), soft_wrap=True, highlight=False, markup=False)


def _home(state: State) -> Path:
    return state.settings().home
