"""The console that every command prints to: nothing printed there can steer the terminal.

Names of files, titles, passages, answers and messages of errors are strangers' texts. They are shown as they stand,
never read as markup, and without the characters that terminals obey; a command need not think of it. One line for
one thing is the command's own matter (`text.sanitize.sanitize_line`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from text.progress import progress_reporter
from text.sanitize import is_showable, sanitize_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console
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


REPORT_EVERY = 10
"""Lines of progress where there is no terminal: one each time this share in percent is done."""


class Draw(Protocol):
    """Tells how far something is; a `total` of 0 is not known yet."""

    def __call__(self, what: str, done: int, total: int, note: str = "") -> None: ...


@contextmanager
def bars(console: Console) -> Iterator[Draw | None]:
    """Return a callback that draws a progress bar: done and total, rate, times, and a note.

    None where there is no terminal to draw on.
    """
    if not console.is_terminal:
        yield None
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
    from rich.text import Text

    class Rate(ProgressColumn):
        """Finished things a second."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:,.1f}/s", style="dim")

    what, note = (TextColumn(f"{{task.{name}}}", markup=False) for name in ("description", "fields[note]"))
    columns = (what, BarColumn(), MofNCompleteColumn(), Rate(), note, TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as drawn:
        tasks: dict[str, TaskID] = {}

        def draw(what: str, done: int, total: int, note: str = "") -> None:
            if what not in tasks:
                tasks[what] = drawn.add_task(what, total=None, note=note)
            drawn.update(tasks[what], completed=done, total=total or None, note=note)

        yield draw


@contextmanager
def progress(console: Console, doing: str, total: int) -> Iterator[Callable[[], None]]:
    """A callback for each finished question; a bar on a terminal, else a line every ten percent."""
    done, reported = 0, 0
    report = progress_reporter()
    with bars(console) as draw:
        if draw is not None:
            draw(doing, 0, total)

        def advance() -> None:
            nonlocal done, reported
            done += 1
            report(doing, done, total)
            if draw is not None:
                draw(doing, done, total)
            elif (percent := 100 * done // total) >= reported + REPORT_EVERY:
                reported = percent - percent % REPORT_EVERY
                console.print(f"{doing}: {done} of {total}")

        yield advance


@contextmanager
def stages(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """A callback told what is being done, how much is done and how much there is: a line, or a bar, each."""
    reported = ""
    report = progress_reporter()

    def tell(what: str, done: int, total: int) -> None:
        nonlocal reported
        if what != reported:
            reported = what
            console.print(f"{what}: {total}")

    with bars(console) as draw:
        show = draw or tell

        def tell_both(what: str, done: int, total: int) -> None:
            report(what, done, total)
            show(what, done, total)

        yield tell_both
