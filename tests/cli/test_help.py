"""Help answers at once: no command's help loads a heavy library."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from typer.main import get_command

from cli import add_plugin_commands, app
from tests.heavy_imports import LATE

# Asks for the help of each command in turn: what it said, and what it loaded that was not loaded before.
ASK_FOR_EACH = """
import contextlib, functools, io, json, sys
import typer.main
from cli import main
typer.main.get_command = functools.cache(typer.main.get_command)  # each call of the program would build all commands
answers = []
before = set()
for path in json.load(sys.stdin):
    sys.argv = ["anaphora", *path, "--help"]
    said, code = io.StringIO(), 0
    with contextlib.redirect_stdout(said):
        try:
            main()
        except SystemExit as end:
            code = end.code
    loaded = set(sys.modules)
    answers.append((code, said.getvalue(), sorted(loaded - before)))
    before = loaded
json.dump(answers, sys.stdout)
"""
Answer = tuple[int, str, list[str]]


def commands() -> Iterator[tuple[str, ...]]:
    """Every command and group of the program."""
    add_plugin_commands()
    waiting: list[tuple[tuple[str, ...], object]] = [((), get_command(app))]
    while waiting:
        path, command = waiting.pop(0)
        yield path
        waiting.extend(((*path, name), below) for name, below in getattr(command, "commands", {}).items())


PATHS = list(commands())


@pytest.fixture(scope="module")
def answers() -> dict[tuple[str, ...], Answer]:
    """Exit code, output and newly loaded modules of each command's help, all asked of one fresh process."""
    run = subprocess.run(
        [sys.executable, "-c", ASK_FOR_EACH], input=json.dumps(PATHS), capture_output=True, text=True, check=True
    )
    return dict(zip(PATHS, json.loads(run.stdout), strict=True))


def test_help_loads_no_heavy_library(answers: dict[tuple[str, ...], Answer]) -> None:
    assert [path for path, (code, said, _) in answers.items() if code or "Usage: anaphora" not in said] == []
    loaded = {(*path, name.partition(".")[0]) for path, (*_, names) in answers.items() for name in names}
    assert [one for one in loaded if one[-1] in LATE] == []


def test_help_loads_little(answers: dict[tuple[str, ...], Answer]) -> None:
    """A library that is on no list yet would show here: one that is worth a second brings hundreds of modules."""
    loaded = {name for _, _, names in answers.values() for name in names}
    assert "typer" in loaded
    assert len(loaded) < 1000
