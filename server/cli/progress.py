"""Progress over many questions: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

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
        done, told = 0, 0

        def count() -> None:
            nonlocal done, told
            done += 1
            if (percent := 100 * done // total) >= told + REPORT_EVERY:
                told = percent - percent % REPORT_EVERY
                console.print(f"{doing}: {done} of {total}", highlight=False)

        yield count
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as bars:
        task = bars.add_task(doing, total=total)
        yield lambda: bars.advance(task)
