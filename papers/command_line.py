"""Build the command line of a paper: the global options of `anaphora`, and commands of its own.

Run from a checkout: `python -m papers.NAME --home HOME COMMAND …`. Nothing here is part of the wheel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from cli import options
from cli.shared.error_handler import ErrorHandlerGroup


def paper_app(help: str, **commands: Callable[..., Any]) -> typer.Typer:  # noqa: A002  (typer's own word)
    """Return an application with these commands, named by their keywords; `_` becomes `-`."""
    app = typer.Typer(cls=ErrorHandlerGroup, help=help, no_args_is_help=True, pretty_exceptions_enable=False)
    app.callback()(options)
    for name, command in commands.items():
        app.command(name.replace("_", "-"))(command)
    return app
