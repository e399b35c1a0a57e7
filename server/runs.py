"""Runs of a home: list what `synth`, `train`, `adapt`, `eval` and `diagnose` left there, and promote a trained one.

Commands start in a terminal and write `progress.json` (`text.progress`). This module reads files and starts nothing.
Files that cannot be read are left out; a listing never raises. Texts of a run are not trusted: a reader escapes them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

from rewriter import runs
from rewriter.load import RERANKERS, REWRITERS, RunKind
from rewriter.runs import promoted_run
from server.store.records import View
from text.names import is_name
from text.progress import read_progress

RunGroup: TypeAlias = Literal["synth", "adapt", "rewriters", "rerankers", "eval", "diagnose"]
"""The kind of a run, which decides where its folder lies."""
TrainedGroup: TypeAlias = Literal["rewriters", "rerankers"]
"""The groups of which one run serves."""
RunState: TypeAlias = Literal["running", "done", "failed", "stopped", "interrupted", "unfinished"]
"""interrupted: the process is gone. unfinished: a folder without progress that lacks its last file."""

KINDS: Mapping[str, RunKind] = {"rewriters": REWRITERS, "rerankers": RERANKERS}
FIGURES, ROWS = 80, 200
_LAST_FILE: Mapping[RunGroup, str] = {
    "synth": "dialogs.train.jsonl",
    "eval": "run.json",
    "diagnose": "failures.jsonl",
    "rewriters": REWRITERS.description,
    "rerankers": RERANKERS.description,
}
"""The file that a command writes last."""
FOLDERS: Mapping[RunGroup, str] = {
    "synth": "synth",
    "adapt": "adapt",
    "rewriters": REWRITERS.folder,
    "rerankers": RERANKERS.folder,
    "eval": "eval/runs",
    "diagnose": "diagnose",
}
"""Where the runs of each group lie in a home."""


class RunSummary(View):
    """A run in a list. `stage`, `done` and `total` tell how far it is, `promoted` whether it serves."""

    group: RunGroup
    name: str
    state: RunState
    started: float
    ended: float | None = None
    stage: str = ""
    done: int = 0
    total: int = 0
    command: str = ""
    promoted: bool = False
    promotable: bool = False
    report: bool = False
    problem: str = ""


class RunCurve(View):
    """A measure over the steps of a training."""

    name: str
    points: tuple[tuple[float, float], ...]


class RunTable(View):
    """A table; its cells are texts."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class RunDetail(RunSummary):
    """A run with its figures, loss curves and tables."""

    figures: dict[str, str]
    curves: tuple[RunCurve, ...] = ()
    tables: tuple[RunTable, ...] = ()


@dataclass(frozen=True, slots=True)
class RunReader:
    """Read the runs of a home."""

    home: Path

    def listing(self) -> list[RunSummary]:
        """Return every run of every group, the newest first."""
        summaries = [
            RunSummary.model_validate(self._summary(group, folder))
            for group, place in FOLDERS.items()
            for folder in (self.home / place).glob("*")
            if folder.is_dir() and is_name(folder.name)
        ]
        return sorted(summaries, key=lambda run: run.started, reverse=True)

    def detail(self, group: RunGroup, name: str) -> RunDetail | None:
        """Return all there is to show of a run, or None if there is no run of that name."""
        folder = self.home / FOLDERS[group] / name
        if not is_name(name) or not folder.is_dir():
            return None
        return RunDetail(
            **self._summary(group, folder),
            figures=dict(islice(_figures(group, folder).items(), FIGURES)),
            curves=_curves(folder),
            tables=tuple(self._tables(group, folder)),
        )

    def _summary(self, group: RunGroup, folder: Path) -> dict[str, Any]:
        progress, finished = read_progress(folder), _finished(group, folder)
        state: RunState = "done" if finished else "unfinished"
        if progress is not None and (progress.state != "done" or not finished):
            state = "interrupted" if progress.state == "running" and not progress.alive else progress.state
        promoted = group in KINDS and promoted_run(self.home, KINDS[group]) == folder.name
        running = state == "running" and progress is not None
        return {
            "group": group,
            "name": folder.name,
            "state": state,
            "started": progress.started if progress else folder.stat().st_mtime,
            "ended": progress.updated if progress and not running else None,
            "stage": progress.stage if running and progress else "",
            "done": progress.done if running and progress else 0,
            "total": progress.total if running and progress else 0,
            "command": progress.command if progress else "",
            "promoted": promoted,
            "promotable": group in KINDS and finished and not promoted,
            "report": group in ("eval", "diagnose") and finished,
            "problem": progress.error if progress and state == "failed" else "",
        }

    def _tables(self, group: RunGroup, folder: Path) -> Iterator[RunTable]:
        """Yield measured rows of an evaluation, and the changes that an adaptation measured."""
        metrics = _object(folder / "metrics.json").get("metrics", [])
        yield from _table("Measured", [row for row in metrics if row.get("part") == "all"])
        if group == "adapt" or group in KINDS:
            state = _object(self.home / "adapt" / folder.name / "state.json")
            changes = state.get("done", {}).get("evaluate", {}).get("changes", [])
            yield from _table("Before and after, on held-out questions", changes)


def promote(home: Path, name: str, kind: RunKind) -> str:
    """Open a run and make it serve. Return the name of the one it replaces. Raises RunError."""
    return runs.promote(home, name, kind, _check(kind)) or default(kind)


def rollback(home: Path, kind: RunKind) -> str:
    """Undo the last promotion. Return the name of what serves again. Raises RunError."""
    return runs.rollback(home, kind, _check(kind)) or default(kind)


def default(kind: RunKind) -> str:
    """Return the name of what serves if nothing was promoted."""
    from server.rerankers import DEFAULT

    return DEFAULT if kind == RERANKERS else "the packaged default"


def _check(kind: RunKind) -> Callable[[Path], None]:
    from server.rerankers import check as check_reranker

    return check_reranker if kind == RERANKERS else runs.check


def _finished(group: RunGroup, folder: Path) -> bool:
    if group == "adapt":
        return "evaluate" in _object(folder / "state.json").get("done", {})
    return (folder / _LAST_FILE[group]).is_file()


def _object(path: Path) -> dict[str, Any]:
    value = _json(path)
    return value if isinstance(value, dict) else {}


def _json(path: Path) -> Any:
    """Return the JSON value of a file, or None if it cannot be read."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None


def _figures(group: RunGroup, folder: Path) -> dict[str, str]:
    """Return names and numbers of the result of a run."""
    if group == "adapt":
        values = _object(folder / "state.json").get("done", {})
    elif group in KINDS:
        described = _object(folder / KINDS[group].description)
        names = ("family", "base", "parameters", "seconds", "hardware")
        values = {name: described[name] for name in names if name in described} | (described.get("metrics") or {})
    else:
        values = _object(folder / "run.json")
        for name in ("settings", "versions", "command", "machine", "git", "format"):
            values.pop(name, None)
    return dict(_flat(values)) if isinstance(values, dict) else {}


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name} ")
        elif isinstance(value, float):
            yield f"{prefix}{name}", f"{value:g}"
        elif isinstance(value, str | int):
            yield f"{prefix}{name}", str(value)[:200]


def _curves(folder: Path) -> tuple[RunCurve, ...]:
    """Return the losses over steps of each stage of a training."""
    curves: dict[str, dict[float, float]] = {}
    for stage in sorted((folder / "stages").glob("*"), key=lambda path: path.stat().st_mtime):
        for entry in _stage_log(stage):
            for key, name in (("loss", "loss"), ("eval_loss", "dev loss")):
                if isinstance(entry.get(key), int | float) and isinstance(entry.get("step"), int):
                    curves.setdefault(f"{stage.name}: {name}", {})[entry["step"]] = float(entry[key])
    return tuple(RunCurve(name=name, points=tuple(sorted(points.items()))) for name, points in curves.items())


def _stage_log(stage: Path) -> list[dict[str, Any]]:
    """Return the log of a finished stage, or of its newest checkpoint."""
    newest = sorted(stage.glob("checkpoint-*/trainer_state.json"), key=lambda path: path.stat().st_mtime)[-1:]
    for path in (stage / "log.json", *newest):
        if log := _json(path):
            rows = log.get("log_history") if isinstance(log, dict) else log
            return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return []


def _table(title: str, rows: list[dict[str, Any]]) -> Iterator[RunTable]:
    if rows:
        head = tuple(name for name in rows[0] if name != "part")
        cells = tuple(tuple(_cell(row.get(name)) for name in head) for row in rows[:ROWS])
        yield RunTable(title=title, head=head, rows=cells)


def _cell(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str("" if value is None else value)[:200]
