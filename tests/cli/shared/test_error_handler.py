"""Every error becomes one line and a distinct exit code; Ctrl-C ends a command quietly."""

from __future__ import annotations

import errno
from importlib import import_module

import pytest
import typer
from typer.testing import CliRunner

from cli.shared.error_handler import KNOWN_ERRORS, ErrorHandlerGroup, ExitCode, describe, exit_code
from cli.shared.state import InputError, SettingsError, State
from index.errors import (
    CollectionCorrupt,
    CollectionLocked,
    CollectionNotFound,
    LoadError,
    ModelUnavailable,
    StorageError,
)
from server.api.app import AddressInUse
from server.chat import NotFound, Unavailable
from server.engines.base import EngineError
from server.store import StoreError


def run(error: BaseException, *, debug: bool = False) -> tuple[int, str]:
    """Exit code and standard error of a command that raises `error`."""
    program = typer.Typer(cls=ErrorHandlerGroup, pretty_exceptions_enable=False)

    @program.callback()
    def options(context: typer.Context) -> None:
        context.obj = State(debug=debug)

    @program.command()
    def fail() -> None:
        raise error

    result = CliRunner().invoke(program, ["fail"])
    return result.exit_code, result.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("x"), ExitCode.BAD_INPUT),
        (SettingsError("x"), ExitCode.SETTINGS),
        (CollectionNotFound("x"), ExitCode.NOT_FOUND),
        (CollectionLocked("x"), ExitCode.BUSY),
        (StorageError("x"), ExitCode.STORAGE),
        (ModelUnavailable("x"), ExitCode.MODEL),
        (LoadError("x"), ExitCode.BAD_INPUT),
        (NotFound("x"), ExitCode.NOT_FOUND),
        (Unavailable("x"), ExitCode.MODEL),
    ],
)
def test_a_known_error_is_one_line_with_its_code(error: Exception, code: ExitCode) -> None:
    error.args = ("There is no [bold]collection[/].\nIndex one first.",)
    status, said = run(error)
    assert status == code
    assert said == "error: There is no [bold]collection[/]. Index one first.\n"


@pytest.mark.parametrize(
    ("came", "code"),
    [
        (StoreError("x"), ExitCode.STORAGE),
        (OSError(28, "No space left on device"), ExitCode.STORAGE),
        (CollectionCorrupt("x"), ExitCode.STORAGE),
        (EngineError("x"), ExitCode.LLM),
        (ModelUnavailable("x"), ExitCode.MODEL),
        (ZeroDivisionError("x"), ExitCode.MODEL),
    ],
)
def test_what_the_service_says_in_its_own_words_has_the_code_of_what_it_came_of(
    came: Exception, code: ExitCode
) -> None:
    error = Unavailable("The database cannot be opened.")
    error.__cause__ = came
    assert run(error) == (code, "error: The database cannot be opened.\n")


def test_an_unforeseen_error_names_the_way_to_its_traceback() -> None:
    status, said = run(ZeroDivisionError("division by zero"))
    assert status == ExitCode.UNEXPECTED
    assert "ZeroDivisionError: division by zero" in said
    assert "--debug" in said
    assert "Traceback" not in said


def test_debug_shows_the_traceback() -> None:
    status, said = run(InputError("no such file"), debug=True)
    assert status == ExitCode.BAD_INPUT
    assert "Traceback" in said
    assert said.endswith("error: no such file\n")


def test_an_interrupt_ends_quietly() -> None:
    status, said = run(KeyboardInterrupt())
    assert status == ExitCode.INTERRUPTED
    assert "Traceback" not in said


def test_a_full_disk_is_told_as_such() -> None:
    error = OSError(errno.ENOSPC, "No space left on device", "run.trec")
    assert exit_code(error) is ExitCode.STORAGE
    assert describe(error) == "The disk is full (run.trec); free some space and run the command again."


def test_a_file_that_may_not_be_used_is_named() -> None:
    error = PermissionError(errno.EACCES, "Permission denied", "/home/other")
    assert describe(error) == (
        "/home/other cannot be used: Permission denied. Check that it exists and may be read and written."
    )
    assert exit_code(error) is ExitCode.STORAGE


def test_a_taken_port_is_told_in_the_words_of_the_server() -> None:
    error = AddressInUse(errno.EADDRINUSE, "port 7860 is taken; choose another with --port")
    assert describe(error) == "port 7860 is taken; choose another with --port."
    assert exit_code(error) is ExitCode.BUSY


def test_a_message_cannot_steer_the_terminal() -> None:
    _, said = run(InputError("bad file \x1b[31mname\x07"))
    assert "\x1b" not in said
    assert "\x07" not in said


@pytest.mark.parametrize("name", KNOWN_ERRORS)
def test_every_known_error_exists(name: str) -> None:
    module, _, kind = name.rpartition(".")
    assert issubclass(getattr(import_module(module), kind), Exception)
