"""`anaphora keys`: the API keys that let other machines in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cli.shared.state import InputError, state_of

if TYPE_CHECKING:
    from server.store import Database

app = typer.Typer(help="Make, list and revoke API keys, and serve without.", no_args_is_help=True)


@contextmanager
def _database(context: typer.Context) -> Iterator[Database]:
    from server.store import Database

    database = Database(state_of(context).settings().home / "anaphora.db")
    try:
        yield database
    finally:
        database.close()


@app.command()
def create(context: typer.Context, name: Annotated[str, typer.Argument(help="Whose key it is, or what for.")]) -> None:
    """Make a key and show it, this once: only a hash of it is kept."""
    from server.store import keys

    name = " ".join(name.split())
    if not name or len(name) > 100 or not name.isprintable():
        raise InputError("A key's name has 1 to 100 characters; say whose it is, or what for.")
    with _database(context) as database:
        made, secret = database.write_blocking(lambda connection: keys.create(connection, name))
    state = state_of(context)
    state.err.print(f"Key {made.id} for {name}. Keep it: it cannot be shown again.")
    typer.echo(secret)


@app.command("list")
def list_keys(context: typer.Context) -> None:
    """Every key by its id, with when it was made, last used and revoked; never the key itself."""
    from rich.text import Text

    from cli.shared.console import open_table
    from server.store import keys

    with _database(context) as database:
        found = database.read_blocking(keys.listing)
    state = state_of(context)
    if not found:
        state.err.print("There is no key; `anaphora keys create NAME` makes one.")
        return
    table = open_table("id", "name", "made", "used", "revoked")
    for key in found:
        table.add_row(key.id, Text(key.name), _when(key.created), _when(key.used), _when(key.revoked))
    state.out.print(table)


@app.command()
def revoke(context: typer.Context, key_id: Annotated[str, typer.Argument(help="The key's id, as listed.")]) -> None:
    """Make a key useless from now on, in a running server too."""
    from server.store import keys

    with _database(context) as database:
        revoked = database.write_blocking(lambda connection: keys.revoke(connection, key_id))
        others = database.read_blocking(keys.any_active)
    if not revoked:
        raise InputError(f"There is no active key {key_id[:40]!r}; `anaphora keys list` shows them.")
    state = state_of(context)
    state.err.print(f"Key {key_id} is revoked.")
    if not others:
        state.err.print(
            "It was the last one, and a key is still required: `anaphora keys create NAME` makes one, `anaphora keys "
            "open` serves everybody on this machine without.",
        )


@app.command("open")
def open_up(
    context: typer.Context, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False
) -> None:
    """Require no key any more on loopback, until the next is made; every key must have been revoked."""
    from server.store import keys

    if not yes:
        typer.confirm("Serve everybody who can reach this machine's loopback address without a key?", abort=True)
    with _database(context) as database:
        opened = database.write_blocking(keys.open_up)
    if not opened:
        raise InputError("There are active keys; revoke them first: `anaphora keys list` shows them.")
    state_of(context).err.print("No key is required any more, also by a running server.")


def _when(seconds: float | None) -> str:
    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
