"""`anaphora search`: many questions at once, searched exactly as a chat turn searches, as a TREC run."""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cli.shared.options import Answering, Queries, Rewriting, Searched, Where, overriding
from cli.shared.state import InputError, state_of

if TYPE_CHECKING:
    from rewriter.protocol import Rewriter
    from server.settings import Settings


def search(
    context: typer.Context,
    queries: Queries,
    run: Annotated[Path, typer.Option(help="The TREC run to write.")],
    collection: Searched = "",
    level: Annotated[Literal["passage", "document"], typer.Option(help="Rank passages or documents.")] = "passage",
    k: Annotated[int, typer.Option("--k", "-k", min=1, max=1000, help="Longest ranking of a question.")] = 100,
    depth: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Passages each ranking contributes (retrieval.depth).")
    ] = None,
    rerank: Annotated[
        Literal["auto", "always", "never"] | None, typer.Option(help="When to rerank (retrieval.rerank).")
    ] = None,
    rewriter: Rewriting = None,
    rewrites: Annotated[
        Path | None, typer.Option(help="Output of `anaphora rewrite` to take the rewrites from.")
    ] = None,
    where: Where = None,
) -> None:
    """Search a collection for many questions and write a TREC run."""
    from cli.ask import parse_where
    from evaluation.batches.rewrites import read_queries
    from text.files import text_writer

    state = state_of(context)
    flags = overriding(collection=collection, retrieval__depth=depth, retrieval__rerank=rerank, rewriter__kind=rewriter)
    settings = state.settings(flags)
    lines = read_queries(queries)
    filters = parse_where(where or [])
    written: Rewriter | None = None
    if rewrites is not None:
        from evaluation.batches.rewrites import WrittenRewrites, read_records

        written = WrittenRewrites(lines, read_records(rewrites))

    from cli.shared.console import progress
    from cli.shared.resources import fetch_models, open_collection, open_rewriter
    from evaluation.batches.rewrites import search_all
    from server.chat.loaded_models import Models
    from server.turn.search import TurnSearch

    fetch_models(settings, state, llm=settings.rewriter.kind == "prompted" and written is None)
    models = Models(settings)
    with ExitStack() as stack:
        searched = stack.enter_context(open_collection(settings, models))
        turn_search = TurnSearch(
            collection=lambda _: searched,
            rewriter=written or stack.enter_context(open_rewriter(settings, state)),
            settings=settings,
            reranker=models.reranker(),
        )
        file = stack.enter_context(text_writer(run))
        advance = stack.enter_context(progress(state.err, "searching", len(lines)))
        spaces = search_all(turn_search, lines, file, level=level, k=k, where=filters, advance=advance)
    if spaces:
        state.err.print(
            "Some ids hold spaces. They are written as they are: in a line everything between `Q0` and the last "
            "three fields is the id.",
            style="yellow",
        )
    state.err.print(f"Wrote {run}: {len(lines)} questions, {level} level.")


def mcp(
    context: typer.Context,
    collection: Annotated[str, typer.Option("--collection", "-c", help="The collection used by default.")] = "",
    model: Answering = "",
) -> None:
    """Offer search, ask and open_source to an agent (MCP on stdio); with ANAPHORA_KEY it acts as that key."""
    from cli.shared.resources import fetch_models

    state = state_of(context)
    settings = state.settings(overriding(collection=collection, llm__model=model))
    fetch_models(settings, state, llm=True)
    asyncio.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    from mcp.server.stdio import stdio_server

    from server.audit_log import at_terminal
    from server.chat import open_service
    from server.mcp_tools import make_server
    from server.store import keys

    async with open_service(settings) as opened:
        secret, service = os.environ.get("ANAPHORA_KEY", ""), opened.as_principal(at_terminal())
        if secret:
            key = await opened.core.database.read(keys.check, secret)
            if key is None:
                raise InputError("ANAPHORA_KEY is no key of this home, or has expired; `anaphora keys` lists them.")
            service = opened.as_principal(key.principal)
        server = make_server(lambda _: service)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
