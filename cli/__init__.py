"""The command line: `anaphora …`.

A command takes the `typer.Context`, asks `state_of(context)` for settings and consoles, and raises the project's own
errors: `cli.shared.error_handler` makes a line of text and an exit code of them. Modules here import nothing heavy at
their top, so that `anaphora --help` answers at once.
"""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from typing import Annotated

import typer

from cli import collections, config, evaluate, keys, models, trace
from cli.adapt import adapt
from cli.ask import ask
from cli.backup import backup, restore
from cli.config import doctor
from cli.diagnose import diagnose
from cli.index import index
from cli.search import search
from cli.serve import serve, worker
from cli.shared.error_handler import ErrorHandlerGroup, SafeFormatter
from cli.shared.state import State
from cli.synth import synth
from cli.train import train

app = typer.Typer(
    name="anaphora",
    cls=ErrorHandlerGroup,
    help="Chat over your own documentation, with follow-up questions that work.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"anaphora {version('anaphora')}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    home: Annotated[
        Path | None,
        typer.Option(help="Folder of collections, models and the database. [env: ANAPHORA_HOME]", show_default=False),
    ] = None,
    config_file: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="Settings file to read instead of ./anaphora.toml.", show_default=False
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Chat over your own documentation, with follow-up questions that work."""
    context.obj = State(home=home, config=config_file, debug=debug)


for command in (index, serve, worker, ask, search, train, adapt, synth, diagnose, backup, restore, doctor):
    app.command()(command)
for name, group in {
    "collections": collections, "keys": keys, "trace": trace, "models": models, "eval": evaluate, "config": config,
}.items():  # fmt: skip
    app.add_typer(group.app, name=name)


@cache
def add_plugin_commands() -> None:
    """Add the commands of the installed plugins, once."""
    from pkgutil import resolve_name

    from server.plugins import installed_plugins

    for plugin in installed_plugins().values():
        for name, place in plugin.commands.items():
            app.add_typer(resolve_name(place), name=name)


def main() -> None:
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(SafeFormatter())
    add_plugin_commands()
    app(prog_name="anaphora")


__all__ = ["app", "main"]
