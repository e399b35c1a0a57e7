"""Agents over the Model Context Protocol: search, ask and read sources, on the server's port or on standard input."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Annotated

import typer

from cli.shared.options import Answering, overriding
from cli.shared.resources import fetch_models
from cli.shared.state import InputError, state_of
from server.plugins import Plugin
from text.modules import need_extra

if TYPE_CHECKING:
    from server.settings import Settings


plugin = Plugin(
    name="mcp",
    summary="Let agents search, ask and read over the Model Context Protocol.",
    routers=("plugins.mcp.tools:router",),
    commands={"mcp": "plugins.mcp:app"},
)


app = typer.Typer(help="Offer search, ask and open_source to an agent (MCP on stdio).")


@app.callback(invoke_without_command=True)
def mcp(
    context: typer.Context,
    collection: Annotated[str, typer.Option("--collection", "-c", help="The collection used by default.")] = "",
    model: Answering = "",
) -> None:
    """Offer search, ask and open_source to an agent (MCP on stdio); with ANAPHORA_KEY it acts as that key."""
    need_extra("standard", "The Model Context Protocol", "mcp")
    state = state_of(context)
    settings = state.settings(overriding(collection=collection, llm__model=model))
    fetch_models(settings, state, llm=True)
    asyncio.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    from mcp.server.stdio import stdio_server

    from plugins.mcp.tools import make_server
    from server.access import at_terminal
    from server.chat import open_service
    from server.store import credentials

    async with open_service(settings) as opened:
        secret, service = os.environ.get("ANAPHORA_KEY", ""), opened.as_principal(at_terminal())
        if secret:
            key = await opened.core.database.read(credentials.check_key, secret)
            if key is None:
                raise InputError("ANAPHORA_KEY is no key of this home, or has expired; `anaphora keys` lists them.")
            service = opened.as_principal(key.principal)
        server = make_server(lambda _: service)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
