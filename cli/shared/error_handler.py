"""The error handler of the command line: every error becomes one line and an exit code here, and nowhere else.

Exit codes are part of the interface; `docs/operate/cli.md` lists them.
"""

from __future__ import annotations

import errno
import logging
import sys
import traceback
from enum import IntEnum
from typing import Any

import typer
from typer.core import TyperGroup

from cli.shared.state import State
from text.sanitize import sanitize_line, sanitize_text


class ExitCode(IntEnum):
    """Exit statuses of the commands; 2 is typer's own for wrong usage."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    BAD_INPUT = 3
    NOT_FOUND = 4
    BUSY = 5
    STORAGE = 6
    MODEL = 7
    LLM = 8
    SETTINGS = 9
    GATE = 10
    REFUSED = 11
    INTERRUPTED = 130


UNAVAILABLE = "server.chat.base.Unavailable"

# By full name, so that telling errors apart imports none of the rooms they come from.
KNOWN_ERRORS = {
    "cli.shared.state.InputError": ExitCode.BAD_INPUT,
    "cli.shared.state.SettingsError": ExitCode.SETTINGS,
    "text.modules.MissingExtra": ExitCode.BAD_INPUT,
    "text.modules.PluginError": ExitCode.SETTINGS,
    "index.errors.CollectionNotFound": ExitCode.NOT_FOUND,
    "index.errors.CollectionLocked": ExitCode.BUSY,
    "index.errors.CollectionCorrupt": ExitCode.STORAGE,
    "index.errors.StorageError": ExitCode.STORAGE,
    "index.errors.StoreUnavailable": ExitCode.SETTINGS,
    "index.errors.ModelUnavailable": ExitCode.MODEL,
    "index.errors.IndexingError": ExitCode.BAD_INPUT,
    "server.registry.catalogue.UnknownModel": ExitCode.BAD_INPUT,
    "server.registry.catalogue.DiskFull": ExitCode.STORAGE,
    "server.registry.catalogue.RegistryError": ExitCode.MODEL,
    "server.engines.base.EngineError": ExitCode.LLM,
    "server.turn.events.TurnFailed": ExitCode.BUSY,
    "synth.tasks.RunBusy": ExitCode.BUSY,
    "synth.tasks.ModelFailed": ExitCode.LLM,
    "synth.tasks.SynthError": ExitCode.BAD_INPUT,
    "server.store.records.HomeBusy": ExitCode.BUSY,
    "server.store.records.StoreError": ExitCode.STORAGE,
    "server.api.app.AddressInUse": ExitCode.BUSY,
    "server.api.app.KeyNeeded": ExitCode.SETTINGS,
    "evaluation.questions.BelowThreshold": ExitCode.GATE,
    "evaluation.questions.MissingSet": ExitCode.NOT_FOUND,
    "evaluation.questions.EvaluationError": ExitCode.BAD_INPUT,
    "rewriter.protocol.RunError": ExitCode.MODEL,
    "rewriter.protocol.RewriterError": ExitCode.BAD_INPUT,
    "server.chat.base.NotFound": ExitCode.NOT_FOUND,
    "server.chat.base.Conflict": ExitCode.BUSY,
    "server.chat.base.TooManyRequests": ExitCode.BUSY,
    UNAVAILABLE: ExitCode.MODEL,
    "server.chat.base.ChatError": ExitCode.BAD_INPUT,
}
"""Exit code of each error class that is told to a person in one line; a class stands for those below it."""


def exit_code(error: BaseException) -> ExitCode:
    """The exit code `error` ends a command with; `UNEXPECTED` for one that nobody foresaw."""
    for kind in type(error).__mro__:
        if (code := KNOWN_ERRORS.get(name := f"{kind.__module__}.{kind.__qualname__}")) is not None:
            # The service says in its own words what the store, the index or the disk said.
            came = exit_code(error.__cause__) if name == UNAVAILABLE and error.__cause__ else ExitCode.UNEXPECTED
            return code if came is ExitCode.UNEXPECTED else came
    return ExitCode.STORAGE if isinstance(error, OSError) else ExitCode.UNEXPECTED


def describe(error: BaseException) -> str:
    """One line for a person: what happened and what to do."""
    code = exit_code(error)
    if code is ExitCode.UNEXPECTED:
        return (
            f"Something unexpected went wrong ({type(error).__name__}: {error}). "
            "Run the command again as `anaphora --debug …` to see where; that text belongs in a bug report."
        )
    if isinstance(error, OSError):
        reason = (error.strerror or str(error) or type(error).__name__).rstrip(".")
        if error.errno == errno.ENOSPC:
            where = f" ({error.filename})" if error.filename else ""
            return f"The disk is full{where}; free some space and run the command again."
        if error.filename:
            return f"{error.filename} cannot be used: {reason}. Check that it exists and may be read and written."
        return f"{reason}."
    return " ".join(str(error).split()) or type(error).__name__


class SafeFormatter(logging.Formatter):
    """A line of the log, or a traceback, without what could steer the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return sanitize_text(super().format(record))


class ErrorHandlerGroup(TyperGroup):
    """The group of all commands; errors end here, Ctrl-C with 130 and without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            print("\nStopped.", file=sys.stderr)
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        except (typer.Exit, typer.Abort, typer.TyperException, BrokenPipeError):
            raise
        except Exception as error:  # noqa: BLE001  the error handler
            state = ctx.obj if isinstance(ctx.obj, State) else State()
            if state.debug:
                state.err.print("".join(traceback.format_exception(error)), end="", soft_wrap=True)
            state.err.print("[bold red]error:[/]", end=" ", markup=True)
            state.err.print(sanitize_line(describe(error)), soft_wrap=True)
            raise typer.Exit(exit_code(error)) from None
