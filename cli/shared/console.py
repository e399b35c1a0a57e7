"""The console that every command prints to: nothing printed there can steer the terminal.

Names of files, titles, passages, answers and messages of errors are strangers' texts. They are shown as they stand,
never read as markup, and without the characters that terminals obey.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, TypeAlias

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from text.progress import progress_reporter
from text.sanitize import is_showable, sanitize_text

if TYPE_CHECKING:
    from rich.progress import TaskID


PIPE_WIDTH = 160
"""Columns where there is no terminal to ask: tables keep whole paths."""


class SafeConsole(Console):
    """A console of rich whose texts are shown without what is unsafe; rich's own control codes pass."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.is_control or is_showable(segment.text):
                yield segment
            else:
                yield Segment(sanitize_text(segment.text), segment.style)


def open_console(*, stderr: bool) -> SafeConsole:
    """Standard output, or standard error, where long lines are cut by the terminal alone."""
    console = SafeConsole(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=not stderr)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


def open_table(*columns: str, right: Container[str] = ()) -> Table:
    """A table without lines; the columns named in `right` hold numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


REPORT_SECONDS = 30.0
"""Shortest time between two lines of a stage's progress where there is no terminal."""


Draw: TypeAlias = Callable[[str, int, int], None]
"""Tells how far something is: what, how much is done, and how much there is (0: not known yet)."""


def _lines(console: Console) -> Draw:
    """Return a callback that prints a line as a stage begins, and then one each half minute."""
    told: dict[str, float] = {}

    def tell(what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - told.get(what, float("-inf")) >= REPORT_SECONDS:
            told[what] = now
            console.print(f"{what}: {done:,} of {total:,}" if total else f"{what}: {done:,}")

    return tell


@contextmanager
def bars(console: Console) -> Iterator[Draw]:
    """Return a callback that draws a progress bar with times; where there is no terminal it prints lines instead."""
    if not console.is_terminal:
        yield _lines(console)
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    what = TextColumn("{task.description}", markup=False)
    columns = (what, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as drawn:
        tasks: dict[str, TaskID] = {}

        def draw(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = drawn.add_task(what, total=None)
            drawn.update(tasks[what], completed=done, total=total or None)

        yield draw


@contextmanager
def stages(console: Console) -> Iterator[Draw]:
    """A callback told what is being done, how much is done and how much there is."""
    report = progress_reporter()
    with bars(console) as draw:

        def tell(what: str, done: int, total: int) -> None:
            report(what, done, total)
            draw(what, done, total)

        yield tell


@contextmanager
def progress(console: Console, doing: str, total: int) -> Iterator[Callable[[], None]]:
    """A callback for each finished question, which tells how far that is."""
    numbers = count(1)
    with stages(console) as tell:
        tell(doing, 0, total)
        yield lambda: tell(doing, next(numbers), total)
