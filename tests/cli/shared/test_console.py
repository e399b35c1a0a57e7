"""What is printed is shown as it stands, and cannot steer the terminal."""

from __future__ import annotations

import logging
import re
from io import StringIO

import pytest
from rich.table import Table
from rich.text import Text

from cli.shared.console import ProgressLines, SafeConsole, open_console, stages
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


def test_where_there_is_no_terminal_a_line_each_half_minute_tells_rate_and_rest() -> None:
    console = open_console(stderr=False)
    console.file = StringIO()
    seconds = 0.0
    draw = ProgressLines(console, clock=lambda: seconds)
    for done in range(0, 1001, 10):
        draw("embedding passages", done, 1000)
        seconds += 2.0
    draw("saving", 0, 4)
    seconds += 3600
    draw("saving", 1, 4)
    lines = said(console).splitlines()
    assert lines[:3] == [
        "embedding passages: 1,000",
        "embedding passages: 150 of 1,000, 5.0/s, 3 min left",
        "embedding passages: 300 of 1,000, 5.0/s, 2 min left",
    ]
    assert lines[-3:] == [
        "embedding passages: 900 of 1,000, 5.0/s, 20 s left",
        "saving",
        "saving: 1 of 4, 0.0/min, 3.0 h left",
    ]
    assert len(lines) == 9


def test_a_line_of_the_log_is_escaped() -> None:
    record = logging.LogRecord("server", logging.WARNING, "", 0, "%s failed", (POISON,), None)
    assert SafeFormatter().format(record) == f"{HARMLESS} failed"
