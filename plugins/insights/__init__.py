"""Insights: what people ask, how it went, and what the documents lack, as JSON, CSV and a Markdown report."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated

import typer
from pydantic import Field

from cli.shared.resources import fetch_models
from cli.shared.state import InputError, state_of
from server.plugins import Plugin, SettingsGroup

plugin = Plugin(
    name="insights",
    summary="Report what people ask and what the documents lack.",
    settings="plugins.insights:InsightsSettings",
    commands={"insights": "plugins.insights:app"},
    workbench={"health": "plugins.insights:workbench_health"},
    routers=("plugins.insights.topics:router",),
)


class InsightsSettings(SettingsGroup):
    """Configure insights."""

    enabled: bool = Field(False, description="Let agents see what people ask, grouped by meaning.")


app = typer.Typer(help="Report what people ask and what the documents lack.", no_args_is_help=True)

_DAYS = {"d": 1, "w": 7}


@app.callback()
def insights() -> None:
    """Report what people ask and what the documents lack."""


@app.command()
def report(
    context: typer.Context,
    since: Annotated[str, typer.Option(help="How far back, with today: 7d, 4w.")] = "7d",
    collection: Annotated[str, typer.Option("--collection", "-c", help="Only this collection.")] = "",
    again: Annotated[bool, typer.Option("--again", help="Ask the gaps again, and tell which are closed.")] = False,
) -> None:
    """Print the report in Markdown: topics, gaps with a draft of the section to write, and what nobody cited."""
    from plugins.insights.topics import MAX_DAYS, InsightsService, markdown_report
    from server.chat import open_service

    match = re.fullmatch(r"(\d{1,3})([dw])", since)
    days = int(match[1]) * _DAYS[match[2]] if match else 0
    if not 1 <= days <= MAX_DAYS:
        raise InputError(f"{since[:40]!r} is no time for --since; write 7d or 4w, {MAX_DAYS} days at most.")
    state = state_of(context)
    settings = state.settings()
    fetch_models(settings, state, reranker=False)

    async def made() -> str:
        async with open_service(settings, warm=False) as service:
            report = await InsightsService(service.core, service.principal).report(
                days=days, collection=collection, again=again
            )
            return markdown_report(report, days)

    typer.echo(asyncio.run(made()))
