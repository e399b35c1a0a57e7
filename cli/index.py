"""`anaphora index`: files and folders into a collection, with progress and a status for each failure.

Where a collection came from is remembered in the database, so that the web page can index it again.
"""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from cli.shared.console import bars
from cli.shared.error_handler import ExitCode
from cli.shared.options import Exclude, Include, overriding
from cli.shared.resources import audit, existing, fetch_models, open_database
from cli.shared.state import State, state_of
from text.modules import load_plugin
from text.sanitize import sanitize_line

if TYPE_CHECKING:
    from rich.console import Console
    from sqlalchemy import Connection

    from index.collection import Collection
    from index.encoders import Encoder
    from index.indexer import FileStatus, IndexReport
    from index.writer import IndexProgress, Workers
    from server.settings import Settings
    from server.store.records import FileResult

SHOWN_FAILURES = 50
STAGES = {"reading": "reading files", "embedding": "embedding passages", "saving": "saving"}


def index(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(help="Files and folders.", show_default=False)],
    collection: Annotated[str, typer.Option("--collection", "-c", help="The collection; made if it is new.")] = "",
    include: Include = None,
    exclude: Exclude = None,
    prune: Annotated[bool, typer.Option(help="Remove documents whose files are gone.")] = True,
    retry: Annotated[bool, typer.Option("--retry", help="Read files again that were given up before.")] = False,
    group: Annotated[str, typer.Option(help="A group that may use the collection; without any: default.")] = "",
    on: Annotated[
        str,
        typer.Option(help="here; ray: the Ray cluster of RAY_ADDRESS, or one on this machine, reads and embeds."),
    ] = "here",
) -> None:
    """Index files and folders into a collection; what did not change is left as it is."""
    from server.chat.loaded_models import Models

    state = state_of(context)
    settings = state.settings(overriding(collection=collection))
    files = existing(paths)
    if group:
        from cli.collections import add_grant

        # Before there is anything to see.
        add_grant(settings, group)
    fetch_models(settings, state, reranker=False)
    encoder = Models(settings).encoder()
    patterns = settings.index.model_copy(
        update={
            "include": (*settings.index.include, *(include or ())),
            "exclude": (*settings.index.exclude, *(exclude or ())),
        }
    )
    settings = settings.model_copy(update={"index": patterns})
    workers_of = nullcontext if on == "here" else load_plugin("anaphora.workers", on, kind="cluster", builtin=("here",))
    with workers_of() as workers:
        index_files(state, settings, encoder, files, prune=prune, retry=retry, workers=workers)


def index_files(
    state: State,
    settings: Settings,
    encoder: Encoder,
    files: Sequence[Path],
    *,
    prune: bool = True,
    retry: bool = False,
    workers: Workers | None = None,
) -> None:
    """Bring the collection of the settings up to date, show how far it is and what came of it, and note its sources.

    Raises Exit where no file could be indexed, and KeyboardInterrupt where it was stopped.
    """
    from index.collection import Collection
    from index.errors import IndexingCancelled
    from index.indexer import index_paths
    from index.loaders.sandbox import Limits

    wanted = settings.index
    with stoppable() as stopped, progress(state) as report:
        try:
            done = index_paths(
                settings.home / "collections",
                settings.collection,
                files,
                encoder,
                include=wanted.include,
                exclude=wanted.exclude,
                passage_tokens=wanted.passage_tokens,
                max_file_mb=wanted.max_file_mb,
                prune=prune,
                retry=files if retry else (),
                limits=Limits(ocr_languages=wanted.ocr_languages),
                store=wanted.vectors,
                language=wanted.language,
                site_urls=wanted.site_urls,
                progress=report,
                cancelled=stopped.is_set,
                workers=workers,
            )
        except IndexingCancelled:
            raise KeyboardInterrupt from None
    tell(state, settings.collection, done)
    if not any(file.status in ("indexed", "unchanged") for file in done.files):
        raise typer.Exit(ExitCode.BAD_INPUT)
    remember(settings, files)
    if done.embedded:
        root, store = settings.home / "collections", settings.index.vectors
        with closing(Collection.open(root, settings.collection, encoder, store=store)) as collection:
            advise(state, collection, settings)


def advise(state: State, collection: Collection, settings: Settings) -> None:
    """Propose another embedding model where this one does not read the language of the documents."""
    from server.installation import language_advice

    if advice := language_advice(collection, settings.index):
        text = sanitize_line(f"{advice[0][0].upper()}{advice[0][1:]} {advice[1]}")
        state.err.print(text, style="yellow", soft_wrap=True)


def remember(settings: Settings, files: Sequence[Path]) -> None:
    """Note where the collection came from, and that it was indexed. Raises StoreError."""
    from server.store import collection_rows

    name = settings.collection

    def write(connection: Connection) -> None:
        collection_rows.remember_sources(connection, name, files)
        audit(connection, "collection.index", name, collection=name)

    with open_database(settings) as database:
        database.write_blocking(write)


@contextmanager
def stoppable() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets; the second interrupts at once."""
    stopped = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def progress(state: State) -> Iterator[Callable[[IndexProgress], None]]:
    """A callback that tells how far each stage is."""
    with bars(state.err) as draw:
        yield lambda now: draw(STAGES[now.stage], now.done, now.total)


def tell_files(console: Console, files: Iterable[FileStatus | FileResult]) -> None:
    """Print a line for each file that failed, or of which something was left out."""
    troubled = [file for file in files if file.message and file.status != "unchanged"]
    for file in troubled[:SHOWN_FAILURES]:
        style = "red" if file.status == "failed" else "yellow"
        console.print(sanitize_line(f"{file.document_id} ({file.status}): {file.message}"), style=style)
    if len(troubled) > SHOWN_FAILURES:
        console.print(f"and {len(troubled) - SHOWN_FAILURES} more")


def tell(state: State, collection: str, report: IndexReport) -> None:
    """Print what became of the files: failures one by one, the rest in numbers."""
    tell_files(state.out, report.files)
    counts = Counter[str](file.status for file in report.files)
    order = ("indexed", "unchanged", "failed", "skipped", "deleted")
    numbers = ", ".join(f"{counts[status]} {status}" for status in order if counts[status]) or "no files"
    passages = sum(file.passages for file in report.files if file.status in ("indexed", "unchanged"))
    state.out.print(
        f"{collection}: {numbers}; {passages:,} passages, {report.embedded:,} embedded, {report.seconds:.1f} s.",
    )
