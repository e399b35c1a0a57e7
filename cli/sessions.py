"""`anaphora sessions`: who is signed in on the page, and ending that at once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cli.shared.resources import open_database
from cli.shared.state import InputError, state_of

if TYPE_CHECKING:
    from sqlalchemy import Connection


app = typer.Typer(help="List who is signed in, and sign people out.", no_args_is_help=True)


@app.command("list")
def list_sessions(context: typer.Context) -> None:
    """List the active sign-ins with role, groups and the latest end of each session."""
    from rich.text import Text

    from cli.shared.console import open_table
    from server.store import sessions

    with open_database(state_of(context).settings()) as database:
        sign_ins = database.read_blocking(sessions.listing)
    state = state_of(context)
    if not sign_ins:
        state.err.print("Nobody is signed in.")
        return
    table = open_table("who", "name", "role", "groups", "until (UTC)")
    for who, expires in sign_ins:
        until = datetime.fromtimestamp(expires, UTC).strftime("%Y-%m-%d %H:%M")
        table.add_row(Text(who.id), Text(who.name), who.role, Text(", ".join(sorted(who.groups))), until)
    state.out.print(table)


@app.command()
def end(context: typer.Context, who: Annotated[str, typer.Argument(help="Person, as listed: key:ID, oidc:…")]) -> None:
    """Sign somebody out everywhere, in a running server too. It does not keep them from signing in again."""
    from server.audit_log import account, at_terminal, entry
    from server.store import sessions

    def end_all(connection: Connection) -> int:
        ended = sessions.end_all(connection, who)
        if ended:
            account(connection, entry(at_terminal(), "session.revoke", who, detail={"sessions": ended}))
        return ended

    with open_database(state_of(context).settings()) as database:
        ended = database.write_blocking(end_all)
    if not ended:
        raise InputError(f"{who[:100]!r} is not signed in; `anaphora sessions list` shows who is.")
    state_of(context).err.print(f"{who} is signed out; sessions ended: {ended}.")
