"""`anaphora collections`: what there is, deleting it, and which groups may use it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from cli.shared.console import open_table
from cli.shared.resources import demand_collection, with_service
from cli.shared.state import state_of

if TYPE_CHECKING:
    from server.chat import ChatService

app = typer.Typer(help="List and delete collections, and say who may use them.")


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
    name: Annotated[str, typer.Argument(help="The collection.", show_default=False)],
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


Name = Annotated[str, typer.Argument(help="The collection.", show_default=False)]


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
    state = state_of(context)
    if not revoke:
        # A grant of a name that was mistyped would be kept, and open nothing.
        demand_collection(state.settings().model_copy(update={"collection": name}))
    if not group:
        for granted in with_service(state, lambda service: service.collections.grants(name)):
            state.out.print(granted)
    elif revoke:
        with_service(state, lambda service: service.collections.revoke_grant(name, group))
        state.err.print(f"{name} may not be used by {group} any more.")
    else:
        groups = with_service(state, lambda service: service.collections.grant(name, group))
        state.err.print(f"{name} may be used by: {', '.join(groups)}.")
