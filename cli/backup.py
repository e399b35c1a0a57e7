"""`anaphora backup` and `anaphora restore`: a home in one file, and back."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from cli.shared.state import state_of


def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The file to write; compressed where it ends in .gz.")],
    models: Annotated[
        bool, typer.Option("--models", help="With the fetched models, which can be fetched again.")
    ] = False,
) -> None:
    """Write collections, uploads, conversations, keys and settings into one file, also while a server runs."""
    from server.store.database import write_down
    from server.store.home import back_up

    state = state_of(context)
    file = file.expanduser().absolute()
    settings = state.settings()
    back_up(settings.home, file, models=models, warn=lambda problem: state.err.print(problem, markup=False))
    write_down(settings.database_at, "home.backup", detail={"file": str(file)})
    state.err.print(
        f"Wrote {file} ({file.stat().st_size / 1e6:.1f} MB). Keep it private: it holds conversations and settings.",
        markup=False,
    )
    if url := settings.database.url.get_secret_value():
        from server.store.database import kind_of

        message = f"The database is not in it: save that with `{kind_of(url, 1).dump_command()}`, at the same time."
        state.err.print(message, markup=False, soft_wrap=True)


def restore(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A file that `anaphora backup` wrote; restore only your own.")],
    without: Annotated[
        list[str], typer.Option("--without", help="A collection to leave out, since its files are damaged there.")
    ] = [],  # noqa: B006 (typer makes a list of its own)
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Make the home what it was when the file was written. No server may run on it."""
    from server.store.database import write_down
    from server.store.home import restore as restore_home

    state = state_of(context)
    settings = state.settings()
    home = settings.home
    if not yes:
        typer.confirm(f"Replace what is in {home}?", abort=True)
    manifest = restore_home(home, file.expanduser().absolute(), without=without)
    created = datetime.fromtimestamp(manifest.created).astimezone()
    # The log is the one of then, too; its chain goes on with this.
    detail: dict[str, object] = {"file": str(file), "made": f"{created:%Y-%m-%dT%H:%M:%S%z}"}
    write_down(settings.database_at, "home.restore", detail=detail)
    state.err.print(f"{home} is as it was on {created:%Y-%m-%d %H:%M:%S %Z}.", markup=False)
    if settings.database.url.get_secret_value():
        state.err.print("The database is not: put the dump of that time back with `pg_restore --clean`.", markup=False)
