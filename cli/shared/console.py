"""The console that every command prints to: nothing printed there can steer the terminal.

Names of files, titles, passages, answers and messages of errors are strangers' texts. They are shown as they stand,
never read as markup, and without the characters that terminals obey; a command need not think of it. One line for
one thing is the command's own matter (`text.unsafe.showable_line`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from text.unsafe import is_showable, showable

PIPE_WIDTH = 160
"""Columns where there is no terminal to ask: tables keep whole paths."""


class SafeConsole(Console):
    """A console of rich whose texts are shown without what is unsafe; rich's own control codes pass."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.is_control or is_showable(segment.text):
                yield segment
            else:
                yield Segment(showable(segment.text), segment.style)


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
