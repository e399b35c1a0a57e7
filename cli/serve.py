"""`anaphora serve`: the page and the API over a collection, from models and documents to an open port.

`anaphora worker` is a process that works off the jobs which servers leave to workers, without page and API.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.index import STAGES, advise, progress, tell_files
from cli.shared.options import Answering, overriding
from cli.shared.resources import existing, fetch_models
from cli.shared.state import InputError, State, state_of
from text.files import path_text
from text.sanitize import sanitize_line

if TYPE_CHECKING:
    import socket

    from server.chat import ChatService, CollectionSummary, Job, Readiness
    from server.settings import Settings

POLL_SECONDS = 0.2


def serve(
    context: typer.Context,
    docs: Annotated[
        list[Path] | None, typer.Option(help="Files or folders to serve; repeatable. What was served before goes.")
    ] = None,
    collection: Annotated[
        str, typer.Option("--collection", "-c", help="The collection to serve.", show_default="docs")
    ] = "",
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but loopback needs a key.", show_default="127.0.0.1")
    ] = "",
    port: Annotated[int | None, typer.Option(help="Port of the page and the API.", show_default="7860")] = None,
    model: Answering = "",
    group: Annotated[str, typer.Option(help="A group that may use what is indexed; without any: default.")] = "",
    home: Annotated[Path | None, typer.Option(help="As the global --home.", show_default=False)] = None,
) -> None:
    """Serve the page and the API; models are fetched and documents indexed first where needed."""
    from cli.shared.reference import effective
    from index.loaders import walk
    from server.api.app import demand_key
    from server.store.home import hold_home

    state = state_of(context)
    if home is not None:
        state.home = home
    flags = overriding(collection=collection, llm__model=model, server__host=host, server__port=port)
    settings = state.settings(flags)
    paths = existing(docs or ())
    if paths and next(walk(paths, settings.index.include, settings.index.exclude), None) is None:
        places = ", ".join(map(path_text, paths))
        raise InputError(f"There is no document in {places}; correct --docs, `index.include` or `index.exclude`.")
    # Before anything is fetched: another server on this home and a taken port are known at once.
    with contextlib.ExitStack() as held:
        if not settings.database.url:
            held.enter_context(hold_home(settings.home))
        sock = held.enter_context(_listening(settings))
        demand_key(settings)
        _tell_answering(settings, state)
        fetch_models(settings, state, llm=True)
        values = effective(settings, state.settings_class(), state.flags(flags))
        chosen = {row.setting.name: row.value for row in values if row.source != "default"}
        asyncio.run(_serve(settings, state, sock, paths, chosen, group))


@contextlib.contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket]:
    """Yield the listening socket of a server process over a home that is whole. Raises InputError or AddressInUse."""
    from server.api.app import listen
    from server.processes import share_heaps
    from server.store.home import unfinished

    share_heaps()
    if unfinished(settings.home):
        raise InputError(f"Restoring {settings.home} was cut short; run `anaphora restore FILE` again first.")
    with contextlib.closing(listen(settings.server)) as sock:
        yield sock


def _tell_answering(settings: Settings, state: State) -> None:
    """On the first start, where nobody chose a model: what answers, and what of this machine or the hub could."""
    from server.installation import nearby_servers, recommendation

    model = settings.llm.model
    if model != type(settings.llm).model_fields["model"].default or (settings.home / "collections").exists():
        return
    quoted = model.casefold() == "none"
    now = "Answers are quoted from your documents; no language model writes them." if quoted else f"{model} answers."
    lines = (now, recommendation(settings), *map(str, nearby_servers()))
    state.err.print(sanitize_line(" ".join(filter(None, lines))), soft_wrap=True)


async def _serve(
    settings: Settings, state: State, sock: socket.socket, paths: Sequence[Path], chosen: Mapping[str, str], group: str
) -> None:
    from server.access import at_terminal
    from server.api.app import Server, create_app
    from server.chat import open_service
    from server.plugins import parts
    from ui import load_page, mount

    async with open_service(settings) as opened:
        service = opened.as_principal(at_terminal())
        await service.admin.account("serve.start", detail={"settings": chosen})
        # Documents are read while the page is imported: each takes seconds.
        loading = asyncio.create_task(asyncio.to_thread(load_page))
        preparing = asyncio.create_task(_prepare(service, state, sock, paths, group, loading))
        await loading
        app = create_app(service, settings)
        mount(app, service)
        server = Server(app, settings.server)
        serving = asyncio.create_task(server.serve(sockets=[sock]))
        following = {preparing, *(asyncio.create_task(task(opened)) for task in parts("tasks"))}
        await asyncio.wait({serving, preparing}, return_when=asyncio.FIRST_COMPLETED)
        if failed := preparing.done() and preparing.exception() is not None:
            server.should_exit = True
        await serving
        for task in following:
            task.cancel()
        await asyncio.wait(following)
        service.admin.note("serve.stop")
        if failed:
            preparing.result()
    state.err.print("Stopped.")


async def _prepare(
    service: ChatService,
    state: State,
    sock: socket.socket,
    paths: Sequence[Path],
    group: str,
    loading: asyncio.Task[None],
) -> None:
    """Index what is to be served, wait until questions are answered and the page is loaded, and say where."""
    from index.errors import IndexingError
    from server.api.app import address

    name = service.settings.collection
    await service.collections.resume_uploads()
    await service.collections.resume_embedding()
    names = {info.name for info in await service.collections.listing()}
    wanted = list(paths) or ([] if name in names else own_documentation())
    if wanted:
        job = await service.collections.index_paths(name, wanted, replace=True, group=group)
        tell(state, await watch(service, state, job))
        with contextlib.suppress(IndexingError):  # what cannot be opened is told below
            await asyncio.to_thread(lambda: advise(state, service.core.opened.get(name), service.settings))
    elif name not in names:
        state.err.print(
            f"There is no collection [bold]{name}[/] yet: upload documents on the page, or start with --docs PATH.",
            markup=True,
        )
    readiness = await service.admin.readiness()
    summary = next((info for info in await service.collections.listing() if info.name == name), None)
    if summary:
        with state.err.status("loading"):
            await asyncio.wait({loading})
            while not readiness.problems and readiness.waiting_for:
                await asyncio.sleep(POLL_SECONDS)
                readiness = await service.admin.readiness()
    for problem in (*readiness.problems, *readiness.warnings):
        state.err.print(problem, style="yellow")
    state.out.print(f"Anaphora serves [bold]{name}[/] at [bold]{address(sock)}[/] ", end="", markup=True)
    state.out.print(f"({_about(summary, readiness)}; Ctrl-C ends)")
    if summary and summary.without_vector:
        state.err.print("Its words are searched already; the search by meaning follows part by part.")
        await _embedded(service, state, name)


async def _embedded(service: ChatService, state: State, name: str) -> None:
    """Draw the progress of embedding until it is done."""
    while jobs := [job for job in await service.admin.jobs(name) if job.kind == "embed" and not job.finished]:
        job = await watch(service, state, jobs[0])
        if job.state != "done":
            state.err.print(f"Embedding ended as {job.state}. {job.message}", style="yellow")
            return
    state.err.print(f"All of {name} is searched by meaning, too.")


def _about(summary: CollectionSummary | None, readiness: Readiness) -> str:
    """Say how many documents are served, and what answers: an engine's name without its kind, or nothing."""
    documents = summary.documents if summary else 0
    held = "1 document" if documents == 1 else f"{documents:,} documents"
    if not readiness.engine:
        return held
    if readiness.engine == "none":
        return f"{held}, answered in quotes, without a model"
    return f"{held}, answered by {sanitize_line(readiness.engine.partition(':')[2] or readiness.engine)}"


def own_documentation() -> list[Path]:
    """This project's documentation where it runs from its checkout."""
    root = Path(__file__).resolve().parents[1]
    docs = root / "docs"
    return [docs] if docs.is_dir() and (root / "pyproject.toml").is_file() else []


async def watch(service: ChatService, state: State, job: Job) -> Job:
    """The finished job, its progress drawn meanwhile, or said that it waits for another one."""
    from index.writer import IndexProgress

    waits = False
    with progress(state) as report:
        while not job.finished:
            await asyncio.sleep(POLL_SECONDS)
            job = await service.admin.job(job.id)
            if job.state == "queued" and not waits:
                waits = True
                running = [row.kind for row in await service.admin.jobs(job.collection) if row.state == "running"]
                other = f"the job ({running[0]})" if running else "another job"
                state.err.print(job.message or f"Waiting for {other} that works on {job.collection} now.")
            if job.stage in STAGES:
                report(IndexProgress(job.stage, job.done, job.total))  # type: ignore[arg-type]  # one of STAGES
    return job


def tell(state: State, job: Job) -> None:
    """Report the outcome for the files; if indexing failed, the previous version keeps serving."""
    tell_files(state.err, job.files)
    if job.state != "done":
        state.err.print(f"Indexing ended as {job.state}. {job.message}", style="red")
        return
    indexed = [file for file in job.files if file.status in ("indexed", "unchanged")]
    state.err.print(f"{job.collection}: {len(indexed)} files, {sum(file.passages for file in indexed):,} passages.")


def worker(
    context: typer.Context,
    jobs: Annotated[int, typer.Option(min=1, help="Jobs at once, each on a collection of its own.")] = 1,
    host: Annotated[str, typer.Option(help="Address of /health.", show_default="127.0.0.1")] = "",
    port: Annotated[int, typer.Option(help="Port of /health; 0 takes a free one.")] = 0,
) -> None:
    """Work off jobs (indexing, embedding, sources) that servers leave to workers by `server.workers`."""
    state = state_of(context)
    settings = state.settings(overriding(server__host=host, server__port=port, server__workers=True))
    if not state.settings().server.workers:
        state.err.print("Servers do their jobs themselves until `server.workers` is set for them.", style="yellow")
    with _listening(settings) as sock:
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
