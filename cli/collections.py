"""`anaphora collections`: what there is, deleting it, and which groups may use it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from cli.keys import demand_group_name
from cli.shared.console import open_table
from cli.shared.resources import audit, demand_collection, open_database, with_service
from cli.shared.state import InputError, state_of

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from server.chat import ChatService
    from server.settings import Settings

app = typer.Typer(help="List and delete collections, and say who may use them.")
Name = Annotated[str, typer.Argument(help="The collection.", show_default=False)]


@app.command("list", hidden=True)
@app.callback(invoke_without_command=True)
def list_all(context: typer.Context) -> None:
    """List the collections: documents, passages, age and version."""
    if context.invoked_subcommand is not None:
        return
    from index.collection import list_collections

    state = state_of(context)
    home = state.settings().home
    infos = sorted(list_collections(home / "collections"), key=lambda info: info.name)
    if not infos:
        state.err.print(f"There are no collections in {home}; `anaphora index PATH --collection NAME` makes one.")
        return
    columns = ("name", "documents", "passages", "updated", "version")
    table = open_table(*columns, right=("documents", "passages"))
    for info in infos:
        updated = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.updated))
        version = info.version or "cannot be read: index it again, or delete it"
        table.add_row(info.name, f"{info.documents:,}", f"{info.passages:,}", updated, version)
    state.out.print(table)


@app.command()
def delete(
    context: typer.Context,
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a collection; the files it was made from are left alone."""
    state = state_of(context)
    home = state.settings().home

    async def run(service: ChatService) -> None:
        collection = next((info for info in await service.collections.listing() if info.name == name), None)
        if not yes and (collection is not None or (home / "collections" / name).is_dir()):
            what = f"{name} with {collection.documents} documents" if collection else f"what is left of {name}"
            typer.confirm(f"Delete {what}?", abort=True)
        await service.collections.delete(name)

    with_service(state, run)
    state.err.print(f"Deleted {name}.")


@app.command()
def grant(
    context: typer.Context,
    name: Name,
    group: Annotated[str, typer.Argument(help="The group; without one, list those that may use it.")] = "",
    revoke: Annotated[bool, typer.Option("--revoke", help="Take the collection from the group instead.")] = False,
) -> None:
    """Let a group use a collection, or list the groups that may.

    A collection without a grant belongs to the group default; with its first grant it does no more. The last grant
    cannot be revoked. `anaphora index --group` grants a collection that is not there yet.
    """
    from server.access import DEFAULT_GROUP
    from server.store import schema

    state = state_of(context)
    settings = state.settings().model_copy(update={"collection": name})
    if not revoke:
        # A grant of a name that was mistyped would be kept, and open nothing.
        demand_collection(settings)
    if group and not revoke:
        add_grant(settings, group)

    def take_back(connection: Connection) -> None:
        if group not in (schema.groups_of(connection, name) or [DEFAULT_GROUP]):
            raise InputError(f"{name} is not granted to {group[:80]!r}.")
        if not schema.revoke_grant(connection, name, group):
            raise InputError(
                f"{group} is the last group {name} is granted to, and without any it would belong to `default`. Grant "
                "it to another group first, or delete the collection."
            )
        audit(connection, "grant.remove", group, collection=name, group=group)

    with open_database(settings) as database:
        if group and revoke:
            database.write_blocking(take_back)
            state.err.print(f"{name} may not be used by {group} any more.")
            return
        groups = database.read_blocking(schema.groups_of, name) or [DEFAULT_GROUP]
    if group:
        state.err.print(f"{name} may be used by: {', '.join(groups)}.")
    else:
        state.out.print("\n".join(groups))


def add_grant(settings: Settings, group: str) -> None:
    """Let a group use the collection of the settings. Raises InputError."""
    from server.store import schema

    demand_group_name(group)

    def add(connection: Connection) -> None:
        schema.grant(connection, settings.collection, group)
        audit(connection, "grant.add", group, collection=settings.collection, group=group)

    with open_database(settings) as database:
        database.write_blocking(add)
