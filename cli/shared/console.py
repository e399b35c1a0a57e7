"""The console that every command prints to: nothing printed there can steer the terminal.

Names of files, titles, passages, answers and messages of errors are strangers' texts. They are shown as they stand,
never read as markup, and without the characters that terminals obey; a command need not think of it. One line for
one thing is the command's own matter (`text.sanitize.sanitize_line`).
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
from rich.text import Text

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


class ProgressLines:
    """Tells how far stages are where there is no terminal to draw on: a line as each begins, and one each half minute.

    `unit` is put behind numbers, with a blank in front. `clock` counts seconds.
    """

    def __init__(self, console: Console, unit: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._unit, self._clock = console, unit, clock
        self._what = ""
        self._before, self._began, self._told = 0, 0.0, 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        now = self._clock()
        if what != self._what:
            self._what, self._before, self._began, self._told = what, done, now, now
            self._console.print(f"{what}: {total:,}{self._unit}" if total >= _COUNTED else what)
        elif now - self._told >= REPORT_SECONDS:
            self._told = now
            rate = (done - self._before) / (now - self._began)
            speed = f"{rate:,.1f}{self._unit}/s" if rate >= 1 else f"{60 * rate:,.1f}{self._unit}/min"
            of = f" of {total:,}" if total else ""
            left = f", {_span((total - done) / rate)} left" if rate and total else ""
            self._console.print(f"{what}: {done:,}{of}{self._unit}, {speed}{left}")


_COUNTED = 10
"""What has fewer parts is told without their number."""


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def bars(console: Console, unit: str = "") -> Iterator[Draw]:
    """Return a callback that draws a progress bar: done and total, rate, times.

    Where there is no terminal to draw on it prints lines instead. `unit` is put behind numbers, with a blank in front.
    """
    if not console.is_terminal:
        yield ProgressLines(console, unit)
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    class Rate(ProgressColumn):
        """Finished things a second."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:,.1f}{unit}/s", style="dim")

    what = TextColumn("{task.description}", markup=False)
    columns = (what, BarColumn(), MofNCompleteColumn(), Rate(), TimeElapsedColumn(), TimeRemainingColumn())
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
