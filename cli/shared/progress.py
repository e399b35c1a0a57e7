"""Progress over many questions: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console
    from rich.progress import TaskID

REPORT_EVERY = 10
"""Lines of progress where there is no terminal: one each time this share in percent is done."""


@contextmanager
def progress(console: Console, doing: str, total: int) -> Iterator[Callable[[], None]]:
    """A callback for each finished question; a bar on a terminal, else a line every ten percent."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    if not console.is_terminal:
        done, reported = 0, 0

        def count() -> None:
            nonlocal done, reported
            done += 1
            if (percent := 100 * done // total) >= reported + REPORT_EVERY:
                reported = percent - percent % REPORT_EVERY
                console.print(f"{doing}: {done} of {total}")

        yield count
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as bars:
        task = bars.add_task(doing, total=total)
        yield lambda: bars.advance(task)


@contextmanager
def stages(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """A callback told what is being done, how much is done and how much there is: a line, or a bar, each."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    if not console.is_terminal:
        reported = ""

        def tell(what: str, done: int, total: int) -> None:
            nonlocal reported
            if what != reported:
                reported = what
                console.print(f"{what}: {total}")

        yield tell
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bars:
        tasks: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield show
