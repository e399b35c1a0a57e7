"""`anaphora keys`: the API keys that let other machines in, and who is signed in on the page."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from cli.shared.console import open_table
from cli.shared.resources import audit, open_database
from cli.shared.state import InputError, state_of
from text.files import NAME_RULE, is_name

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from server.access import Role

app = typer.Typer(help="Make, list and revoke API keys and sign-ins.", no_args_is_help=True)


_DAYS = {"h": 1 / 24, "d": 1, "w": 7, "y": 365}


@app.command()
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Owner of the key, or its purpose.")],
    role: Annotated[
        Literal["visitor", "reader", "agent", "operator"] | None,
        typer.Option(
            help="visitor asks by the widget alone; reader asks; agent also reviews and rates; operator also manages. "
            "Without it: operator, or reader where a group is named."
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            help="A group whose collections it opens; repeatable. Without any: default, or all (*) for an operator."
        ),
    ] = None,
    expires: Annotated[str, typer.Option(help="How long it opens anything: 12h, 90d, 4w, 1y.")] = "",
) -> None:
    """Make a key and show it, this once: only a hash of it is kept."""
    from server.access import DEFAULT_GROUP, EVERY_GROUP
    from server.store import credentials

    name = " ".join(name.split())
    if not name or len(name) > 100 or not name.isprintable():
        raise InputError("A key's name has 1 to 100 characters; say whose it is, or what for.")
    may: Role = role if role else "reader" if group else "operator"
    groups = frozenset(group or ({EVERY_GROUP} if may == "operator" else {DEFAULT_GROUP}))
    for group_name in groups - {EVERY_GROUP}:
        demand_group_name(group_name)
    until = None if not expires else time.time() + _days(expires) * 86_400

    def make(connection: Connection) -> tuple[credentials.ApiKey, str]:
        api_key, secret = credentials.create_key(connection, name, may, groups, until)
        detail = {"name": name, "role": api_key.role, "groups": sorted(api_key.groups)}
        audit(connection, "key.create", api_key.id, detail=detail)
        return api_key, secret

    state = state_of(context)
    with open_database(state.settings()) as database:
        api_key, secret = database.write_blocking(make)
    ending = f", until {_when(api_key.expires)} UTC" if api_key.expires else ""
    what = f"{api_key.role} of {_groups(api_key.groups)}{ending}"
    state.err.print(f"Key {api_key.id} for {name}, {what}. Keep it: it cannot be shown again.")
    typer.echo(secret)


@app.command("list")
def list_keys(context: typer.Context) -> None:
    """List every key with its role, groups and times, never the key itself, and who is signed in on the page."""
    from server.store import credentials

    state = state_of(context)
    with open_database(state.settings()) as database:
        api_keys = database.read_blocking(credentials.list_keys)
        sign_ins = database.read_blocking(credentials.list_sessions)
    if not api_keys:
        state.err.print("There is no key; `anaphora keys create NAME` makes one.")
    else:
        table = open_table("id", "name", "role", "groups", "made", "used", "expires", "revoked")
        for key in api_keys:
            who = (key.id, Text(key.name), key.role, _groups(key.groups))
            table.add_row(*who, _when(key.created), _when(key.used), _when(key.expires), _when(key.revoked))
        state.out.print(table)
    if sign_ins:
        table = open_table("signed in", "name", "role", "groups", "until (UTC)")
        for principal, until in sign_ins:
            name, groups = Text(principal.name), Text(_groups(principal.groups))
            table.add_row(Text(principal.id), name, principal.role, groups, _when(until))
        state.out.print(table)


@app.command()
def revoke(
    context: typer.Context,
    key_id: Annotated[
        str, typer.Argument(help="A key's id, or somebody who is signed in (key:ID, oidc:…), as listed.")
    ] = "",
    serve_all: Annotated[
        bool, typer.Option("--open", help="Require no key any more, also of a running server; none may be active.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Make a key useless, or sign somebody out everywhere, in a running server too."""
    from server.store import credentials

    state, wanted = state_of(context), key_id.strip()
    if not (wanted or serve_all):
        raise InputError("Name a key or somebody who is signed in; `anaphora keys list` shows them.")
    if serve_all and not yes:
        typer.confirm("Serve everybody who can reach this machine's loopback address without a key?", abort=True)

    def end(connection: Connection) -> str:
        if ":" in wanted:
            ended = credentials.end_sessions(connection, wanted)
            if not ended:
                raise InputError(f"{wanted[:100]!r} is not signed in; `anaphora keys list` shows who is.")
            audit(connection, "session.revoke", wanted, detail={"sessions": ended})
            return f"{wanted} is signed out; sessions ended: {ended}."
        if not credentials.revoke_key(connection, wanted):
            raise InputError(f"There is no active key {wanted[:40]!r}; `anaphora keys list` shows them.")
        audit(connection, "key.revoke", wanted)
        return f"Key {wanted} is revoked."

    def open_up(connection: Connection) -> None:
        if not credentials.require_no_key(connection):
            raise InputError("There are active keys; revoke them first: `anaphora keys list` shows them.")
        audit(connection, "key.open")

    with open_database(state.settings()) as database:
        if wanted:
            state.err.print(database.write_blocking(end), markup=False)
        if serve_all:
            database.write_blocking(open_up)
        elif ":" not in wanted and not database.read_blocking(credentials.any_key):
            state.err.print(
                "It was the last one, and a key is still required: `anaphora keys create NAME` makes one, `anaphora "
                "keys revoke --open` serves everybody on this machine without."
            )
    if serve_all and state.settings().needs_sign_in:
        state.err.print(
            "Every key is forgotten, but the settings still demand a key or signing in (server.host, "
            "server.trusted_hosts, server.proxies or plugins.sso)."
        )
    elif serve_all:
        state.err.print("No key is required any more, also by a running server.")


def demand_group_name(group: str) -> None:
    """Raise InputError for a text that cannot be a group's name."""
    if not is_name(group):
        raise InputError(f"{group[:40]!r} cannot be a group's name: use {NAME_RULE}.")


def _when(seconds: float | None) -> str:
    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def _groups(groups: frozenset[str]) -> str:
    return "every group" if "*" in groups else ", ".join(sorted(groups))


def _days(text: str) -> float:
    """A time such as 90d in days. Raises InputError."""
    count, unit = text[:-1], text[-1:]
    if unit not in _DAYS or not count.isdecimal() or not 0 < int(count) <= 36_500:
        raise InputError(f"{text[:40]!r} is no time for --expires; write 12h, 90d, 4w or 1y.")
    return int(count) * _DAYS[unit]
