"""Sources: places elsewhere whose documents a collection follows, and documents that programs push.

A connector reports the documents of a source (`source`), a mirror keeps them as files with their addresses (`mirror`),
and the index reads those files as any. `service` starts this on request, and `follow` when it is due.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from pydantic import ValidationError

from cli.serve import watch
from cli.shared.console import open_table
from cli.shared.error_handler import ExitCode
from cli.shared.resources import fetch_models, with_service
from cli.shared.state import InputError, State, state_of
from server.plugins import Plugin
from text.sanitize import sanitize_line

if TYPE_CHECKING:
    from plugins.sources.service import SourceService, SourceSummary
    from server.chat import ChatService, Job


plugin = Plugin(
    name="sources",
    summary="Follow folders, repositories, web sites and buckets.",
    settings="plugins.sources.source:SourcesSettings",
    routers=("plugins.sources.sources_api:router",),
    commands={"sources": "plugins.sources:app"},
    tasks=("plugins.sources.service:follow",),
    job_services=("plugins.sources.service:SourceService",),
    document_folders=("plugins.sources.mirror:document_folders",),
    delete_documents=("plugins.sources.mirror:delete_mirrors",),
    workbench={"documents": "plugins.sources:workbench_documents"},
)


T = TypeVar("T")

app = typer.Typer(help="Follow folders, repositories, web sites and buckets, and documents that programs push.")

Name = Annotated[str, typer.Argument(help="The source.", show_default=False)]
MAX_FILES = 50


@app.command("list")
def list_all(context: typer.Context) -> None:
    """List the sources: their place, how the last run ended, when the next one is due."""
    state = state_of(context)
    table = open_table("name", "collection", "kind", "documents", "failed", "last run", "next", right=("documents",))
    for summary in _with_sources(state, lambda service, sources: sources.sources()):
        source, problem = summary.source, sanitize_line(summary.last.problem) if summary.last else "never read"
        last, due = (
            time.strftime("%Y-%m-%d %H:%M", time.localtime(moment)) if moment else ""
            for moment in (summary.last.began if summary.last else 0, summary.due)
        )
        counts = str(summary.documents), str(summary.failed or "")
        table.add_row(source.name, source.collection, source.kind, *counts, f"{last} {problem}", due)
    state.out.print(table)


@app.command()
def add(
    context: typer.Context,
    name: Name,
    location: Annotated[
        str, typer.Argument(help="A folder, an address, s3://BUCKET/PREFIX, or nothing for --kind push.")
    ] = "",
    collection: Annotated[str, typer.Option("--collection", "-c", help="The collection; made if it is new.")] = "",
    kind: Annotated[
        str, typer.Option(help="Empty: folder, git, web or s3, by the location; the page on sources names the others.")
    ] = "",
    every: Annotated[str, typer.Option(help="How often: 30m, 6h, 1d.")] = "",
    option: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="NAME=VALUE", help="Of this kind: branch, path, depth, pages, …"),
    ] = None,
) -> None:
    """Add a source and read it for the first time."""
    from plugins.sources.source import Source, kind_of

    state = state_of(context)
    kind = kind or kind_of(location)
    place = str(Path(location).expanduser().absolute()) if kind == "folder" else location
    if kind == "folder" and not Path(place).is_dir():
        raise InputError(f"There is no folder {place}; correct the location.")
    options: dict[str, Any] = dict(pair.partition("=")[::2] for pair in option or ())
    options |= {"name": name, "kind": kind, "location": place, "every": every}
    try:
        source = Source.model_validate({**options, "collection": collection or state.settings().collection})
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc']))} {problem['msg']}".strip() for problem in error.errors()
        )
        raise InputError(f"This is no source: {problems}. `anaphora sources add --help` says more.") from error
    _run(state, lambda sources: sources.add(source))


@app.command()
def sync(
    context: typer.Context,
    name: Name,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what has changed.")] = False,
) -> None:
    """Read a source now and bring its collection up to date."""
    _run(state_of(context), lambda sources: sources.sync(name, dry_run=dry_run))


@app.command()
def remove(
    context: typer.Context, name: Name, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False
) -> None:
    """Remove a source with its documents; the place it was read from is left alone."""
    if not yes:
        typer.confirm(f"Remove {name} and its documents from the collection?", abort=True)
    _run(state_of(context), lambda sources: sources.remove(name))


def _with_sources(state: State, work: Callable[[ChatService, SourceService], Awaitable[T]]) -> T:
    async def run(service: ChatService) -> T:
        from plugins.sources.service import SourceService

        return await work(service, SourceService(service.core, service.principal))

    return with_service(state, run)


def _run(state: State, begin: Callable[[SourceService], Awaitable[Job | SourceSummary]]) -> None:
    """Begin a job, wait for its end and print its result. Raises Exit if it failed."""
    from server.chat import Job

    fetch_models(state.settings(), state, reranker=False)

    async def work(service: ChatService, sources: SourceService) -> Job | None:
        job = await begin(sources)
        if not isinstance(job, Job):
            if job.source.kind == "push":
                return None
            job = (await service.admin.jobs(job.source.collection))[0]
        return await watch(service, state, job)

    job = _with_sources(state, work)
    if job is None:
        return
    for file in job.files[:MAX_FILES]:
        state.out.print(sanitize_line(f"{file.status}: {file.document_id} {file.message}"), highlight=False)
    counts = Counter(file.status for file in job.files)
    numbers = ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "nothing changed"
    state.out.print(f"{job.collection}: {numbers}.")
    if job.state != "done" or counts["failed"]:
        state.err.print(sanitize_line(f"It ended as {job.state}. {job.message}"), style="red")
        raise typer.Exit(ExitCode.BAD_INPUT)
