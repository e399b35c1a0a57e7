"""What is printed is shown as it stands, and cannot steer the terminal."""

from __future__ import annotations

import logging
import re
from io import StringIO
from itertools import count
from types import SimpleNamespace

import pytest
from rich.table import Table
from rich.text import Text

from cli.shared.console import SafeConsole, bars, open_console, stages
from cli.shared.error_handler import SafeFormatter
from text.sanitize import is_showable

POISON = "a\x1b]0;owned\x07\x1b[2J\u202egnp.exe\x9b1m\ud800 [bold]b[/] :smile:"
HARMLESS = "a]0;owned[2Jgnp.exe1m [bold]b[/] :smile:"
OURS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@pytest.fixture
def console(monkeypatch: pytest.MonkeyPatch) -> SafeConsole:
    """A console like the commands' on a terminal that remembers."""
    console = open_console(stderr=False)
    console.file, console.width = StringIO(), 200
    monkeypatch.setattr(console, "_force_terminal", True)
    monkeypatch.setattr(console, "_color_system", 1)
    return console


def said(console: SafeConsole) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_strangers_texts_are_escaped_wherever_they_stand(console: SafeConsole) -> None:
    table = Table(POISON, title=POISON)
    table.add_row(Text(POISON, style="red"))
    console.print(POISON, style="bold")
    console.print(table)
    console.rule(POISON)
    left = OURS.sub("", said(console).replace(HARMLESS, ""))
    assert said(console).count(HARMLESS) == 5
    assert is_showable(left)
    assert "\x1b[1m" in said(console)


def test_progress_of_asking_is_drawn_on_a_terminal(console: SafeConsole) -> None:
    with stages(console) as draw:
        draw("grounding", 3, 10)
    assert "grounding" in said(console)
    assert "3/10" in said(console)
    assert is_showable(OURS.sub("", said(console)).replace("\r", ""))


def test_where_there_is_no_terminal_a_line_each_half_minute_tells_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    console = open_console(stderr=False)
    console.file = StringIO()
    clock = count(0, 2)
    monkeypatch.setattr("cli.shared.console.time", SimpleNamespace(monotonic=lambda: next(clock)))
    with bars(console) as draw:
        for done in range(0, 400, 10):
            draw("model", done, 1000)
        draw("saving", 0, 0)
    assert said(console).splitlines() == [
        "model: 0 of 1,000",
        "model: 150 of 1,000",
        "model: 300 of 1,000",
        "saving: 0",
    ]


def test_a_line_of_the_log_is_escaped() -> None:
    record = logging.LogRecord("server", logging.WARNING, "", 0, "%s failed", (POISON,), None)
    assert SafeFormatter().format(record) == f"{HARMLESS} failed"
