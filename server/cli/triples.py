"""`anaphora triples …`: rule-made training pairs for the rewriter, and what is in files of such pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.edge import EdgeGroup
from server.cli.state import state_of

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(
    cls=EdgeGroup, no_args_is_help=True, help="Make pairs for training the rewriter by rules, without a model."
)


@contextmanager
def _counted(console: Console, what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A callback told how many there are by now; a bar with rate and time left, or a line every ten percent."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    if not console.is_terminal:
        told = 0

        def tell(done: int) -> None:
            nonlocal told
            if (percent := 100 * done // total) >= told + 10:
                told = percent - percent % 10
                console.print(f"{what}: {done:,} of {total:,}", highlight=False)

        yield tell
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TaskProgressColumn(show_speed=True))
    with Progress(*columns, TimeRemainingColumn(), console=console) as bars:
        task = bars.add_task(what, total=total)
        yield lambda done: bars.update(task, completed=done)


@app.command()
def make(
    context: typer.Context,
    paths: Annotated[
        list[Path], typer.Argument(help="Documents and folders; also .txt.gz and .jsonl.gz.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write; compressed where it ends in .gz.")],
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Rows to write.")] = 100_000,
    seed: Annotated[
        int, typer.Option(help="Decides every choice: the same seed and documents give the same file.")
    ] = 1,
    processes: Annotated[int, typer.Option("--processes", "-j", min=1, max=256, help="Processes to use.")] = 1,
    unchanged: Annotated[float, typer.Option(min=0, max=1, help="Share of questions that stand alone already.")] = 0.48,
    without_answers: Annotated[
        float, typer.Option(min=0, max=1, help="Share of conversations that keep the user's turns only.")
    ] = 0.12,
    casual: Annotated[float, typer.Option(min=0, max=1, help="Share of pointing questions in small letters.")] = 0.5,
    include: Annotated[list[str] | None, typer.Option(help="Only files that match; may be repeated.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="No files that match; may be repeated.")] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Begin anew instead of going on with what is there.")
    ] = False,
) -> None:
    """Make (history, question, stand-alone question) rows from documents by rules.

    Ctrl-C, or anything else that stops it, loses at most the block underway: the same command goes on from there.
    """
    from synth.rules.generate import Proportions
    from synth.rules.run import write_triples

    state = state_of(context)
    proportions = Proportions(unchanged=unchanged, without_answers=without_answers, casual=casual)
    state.err.print("Reading documents…", markup=False)
    with _counted(state.err, "triples", count) as reached:
        report = write_triples(
            paths,
            out,
            count,
            seed=seed,
            proportions=proportions,
            processes=processes,
            include=include or (),
            exclude=exclude or (),
            restart=restart,
            progress=reached,
        )
    for warning in report.warnings[:5]:
        state.err.print(warning, style="yellow", markup=False)
    if len(report.warnings) > 5:
        state.err.print(f"… and {len(report.warnings) - 5} more files were left out.", style="yellow", markup=False)
    if report.rows < count:
        state.err.print(
            f"The documents are too short for more than {report.rows:,} rows.",
            style="yellow",
            markup=False,
        )
    state.err.print(f"Wrote {report.path}: {report.rows:,} rows from {report.documents:,} documents.", markup=False)


@app.command()
def stats(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="Files of rewriting examples of any shape.", show_default=False)],
    sample: Annotated[int, typer.Option(min=0, max=200, help="Rows of the first file to show in full.")] = 0,
    seed: Annotated[int, typer.Option(help="Which rows are shown.")] = 1,
) -> None:
    """Print length, share unchanged and kinds of reference of each file, as one Markdown table."""
    from synth.rules.stats import sampled, statistics, table

    state = state_of(context)
    found = [(path.name, statistics(path)) for path in files]
    state.out.print(table(found), markup=False)
    if sample:
        state.out.print(sampled(files[0], sample, seed), markup=False)
