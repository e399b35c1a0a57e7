"""What is told of runs and of what may be started. Texts in it are never trusted: a reader escapes them."""

from __future__ import annotations

from typing import Literal, TypeAlias

from server.store.records import View

RunGroup: TypeAlias = Literal["synth", "adapt", "rewriters", "rerankers", "readers", "eval", "diagnose"]
"""What a run makes, which decides where its folder lies."""

TrainedGroup: TypeAlias = Literal["rewriters", "rerankers"]
"""Those of which one serves."""

RunCommand: TypeAlias = Literal["synth", "train", "adapt", "eval", "diagnose"]

RunState: TypeAlias = Literal["running", "done", "failed", "stopped", "interrupted", "unfinished"]
"""interrupted: the server ended before the command did. unfinished: begun in a terminal, and not ended there yet."""


class RunField(View):
    """A field of a form: one of `choices`, or a whole number from `least` to `most`. `default` as it would be sent."""

    name: str
    label: str
    choices: tuple[str, ...] = ()
    least: int = 0
    most: int = 0
    default: str = ""


class RunPlan(View):
    """A command that may be started. `missing` says what it lacks, where it cannot be started now."""

    command: RunCommand
    about: str
    fields: tuple[RunField, ...]
    missing: str = ""


class CommandRecord(View):
    """What was started, by whom and with what end; `runner` is the mark of the server's process.

    `stopped` is whether somebody asked for its end.
    """

    command: RunCommand
    fields: dict[str, str]
    arguments: tuple[str, ...]
    who: str
    runner: str
    started: float
    ended: float | None = None
    code: int | None = None
    stopped: bool = False


class RunSummary(View):
    """A run in a list. `doing`, `done` and `total` say how far it is, `promoted` whether it serves.

    `resumable` is whether the same command can go on with it; `report` whether it has a page to be compared on.
    """

    group: RunGroup
    name: str
    state: RunState
    started: float
    ended: float | None = None
    doing: str = ""
    done: int = 0
    total: int = 0
    promoted: bool = False
    promotable: bool = False
    resumable: bool = False
    report: bool = False
    problem: str = ""


class RunCurve(View):
    """A measure over the steps of a training."""

    name: str
    points: tuple[tuple[float, float], ...]


class RunTable(View):
    """A table, its cells as texts."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class RunDetail(RunSummary):
    """All that is shown of a run. `log` are its last lines; `command` is what a terminal would be told."""

    command: str = ""
    fields: dict[str, str]
    who: str = ""
    figures: dict[str, str]
    curves: tuple[RunCurve, ...] = ()
    tables: tuple[RunTable, ...] = ()
    log: tuple[str, ...] = ()
