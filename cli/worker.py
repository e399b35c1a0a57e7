"""`anaphora worker`: a process that works off the jobs which servers leave to workers, without page and API."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Annotated

import typer

from cli.shared.options import overriding
from cli.shared.resources import fetch_models
from cli.shared.state import InputError, State, state_of

if TYPE_CHECKING:
    import socket

    from server.settings import Settings


def worker(
    context: typer.Context,
    jobs: Annotated[int, typer.Option(min=1, help="Jobs at once, each on a collection of its own.")] = 1,
    host: Annotated[str, typer.Option(help="Address of /health.", show_default="127.0.0.1")] = "",
    port: Annotated[int, typer.Option(help="Port of /health; 0 takes a free one.")] = 0,
) -> None:
    """Work off jobs (indexing, embedding, sources) that servers leave to workers by `server.workers`."""
    from server.api.app import listen
    from server.processes import share_heaps
    from server.store.home import unfinished

    share_heaps()
    state = state_of(context)
    settings = state.settings(overriding(server__host=host, server__port=port, server__workers=True))
    if unfinished(settings.home):
        raise InputError(f"Restoring {settings.home} was cut short; run `anaphora restore FILE` again first.")
    if not state.settings().server.workers:
        state.err.print("Servers do their jobs themselves until `server.workers` is set for them.", style="yellow")
    with contextlib.closing(listen(settings.server)) as sock:
        fetch_models(settings, state, reranker=False)
        asyncio.run(_work(settings, state, sock, jobs))


async def _work(settings: Settings, state: State, sock: socket.socket, jobs: int) -> None:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from server.api.app import Server, address
    from server.chat import open_service

    async def health(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    async with open_service(settings, warm=False, jobs_at_once=jobs):
        state.out.print(f"Working off jobs; {address(sock)}/health answers (Ctrl-C ends)")
        await Server(Starlette(routes=[Route("/health", health)]), settings.server).serve(sockets=[sock])
    state.err.print("Stopped; what was not finished is left to the next worker.")
