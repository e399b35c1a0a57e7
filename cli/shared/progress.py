"""Progress of whatever a command does: bars on a terminal, lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from text.progress import progress_reporter

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console
    from rich.progress import TaskID

REPORT_EVERY = 10
"""Lines of progress where there is no terminal: one each time this share in percent is done."""


class Draw(Protocol):
    """Tells how far something is; a `total` of 0 is not known yet."""

    def __call__(self, what: str, done: int, total: int, note: str = "") -> None: ...


@contextmanager
def bars(console: Console) -> Iterator[Draw | None]:
    """A callback that draws a bar for everything that it is told of: done and total, rate, times, and a note.

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
