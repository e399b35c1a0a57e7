"""Runs of a home: what synth, train, adapt, eval and diagnose left in their folders, and which trained run serves.

Runs are started in a terminal. This module reads their files; only `promote` and `rollback` change anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

from rewriter import runs
from rewriter.load import REWRITERS
from server.store.jobs import is_held
from server.store.records import View
from text.files import is_name
from text.progress import LOCK, RunProgress, read_progress

RunGroup: TypeAlias = Literal["synth", "adapt", "rewriters", "eval", "diagnose"]
RunState: TypeAlias = Literal["running", "done", "failed", "stopped", "interrupted", "unfinished"]
"""interrupted: the command was killed. unfinished: it ended without its last file, or left no progress."""

FOLDERS: Mapping[RunGroup, str] = {
    "synth": "synth",
    "adapt": "adapt",
    "rewriters": REWRITERS.folder,
    "eval": "eval/runs",
    "diagnose": "diagnose",
}
"""Folder of each group's runs, relative to the home."""
_LAST_FILE: Mapping[RunGroup, str] = {
    "synth": "dialogs.train.jsonl",
    "eval": "run.json",
    "diagnose": "failures.jsonl",
    "rewriters": REWRITERS.description,
}
COMMANDS: Mapping[RunGroup, str] = {
    "synth": "anaphora synth PATHS… --out={home}/synth/NAME",
    "adapt": "anaphora adapt PATHS… --name=NAME",
    "rewriters": "anaphora train RECIPE --data=FOLDER --name=NAME",
    "eval": "anaphora eval retrieval --questions=FILE --name=NAME",
    "diagnose": "anaphora diagnose GOLD.jsonl --out={home}/diagnose/NAME",
}
DEFAULT = "the packaged default"
"""What serves where nothing was promoted."""
FIGURES = 80
ROWS = 200


class RunSummary(View):
    """A run in a list. `progress` is absent where the command wrote none; `report` is whether it has a page."""

    group: RunGroup
    name: str
    state: RunState
    started: float
    progress: RunProgress | None = None
    promoted: bool = False
    promotable: bool = False
    report: bool = False


class RunTable(View):
    """A table, its cells as texts."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class RunDetail(RunSummary):
    """A run with its figures and tables. Texts in it are not trusted: a page must escape them."""

    figures: dict[str, str]
    tables: tuple[RunTable, ...] = ()


def list_runs(home: Path) -> list[RunSummary]:
    """Return every run of every group, the newest first."""
    runs = [
        RunSummary.model_validate(_summary(home, group, folder))
        for group, place in FOLDERS.items()
        for folder in (home / place).glob("*")
        if folder.is_dir() and is_name(folder.name)
    ]
    return sorted(runs, key=lambda run: run.started, reverse=True)


def read_run(home: Path, group: RunGroup, name: str) -> RunDetail | None:
    """Return a run with its figures and tables, or None where there is none of that name."""
    folder = home / FOLDERS[group] / name
    if not is_name(name) or not folder.is_dir():
        return None
    figures = dict(islice(_figures(group, folder).items(), FIGURES))
    return RunDetail(**_summary(home, group, folder), figures=figures, tables=tuple(_tables(home, group, folder)))


def promote(home: Path, name: str) -> str:
    """Make a rewriter serve and return the name of the one it replaces. Raises RunError: then nothing changes."""
    return runs.promote(home, name) or DEFAULT


def rollback(home: Path) -> str:
    """Bring back what served before the last promotion and return its name. Raises RunError."""
    return runs.rollback(home) or DEFAULT


def _summary(home: Path, group: RunGroup, folder: Path) -> dict[str, Any]:
    progress, finished = read_progress(folder), _is_finished(group, folder)
    trained = group == "rewriters"
    promoted = trained and runs.promoted_run(home) == folder.name
    return {
        "group": group,
        "name": folder.name,
        "state": _state(folder, progress, finished),
        "started": progress.started if progress else folder.stat().st_mtime,
        "progress": progress,
        "promoted": promoted,
        "promotable": trained and finished and not promoted,
        "report": group in ("eval", "diagnose") and finished,
    }


def _state(folder: Path, progress: RunProgress | None, finished: bool) -> RunState:
    if progress is None or progress.status == "done":
        return "done" if finished else "unfinished"
    if progress.status == "running":
        return "running" if is_held(folder / LOCK) else "interrupted"
    return progress.status


def _is_finished(group: RunGroup, folder: Path) -> bool:
    if group == "adapt":
        return "evaluate" in _object(folder / "state.json").get("done", {})
    return (folder / _LAST_FILE[group]).is_file()


def _figures(group: RunGroup, folder: Path) -> dict[str, str]:
    """Return names and numbers of a run's results."""
    if group == "adapt":
        values = _object(folder / "state.json").get("done", {})
    elif group == "rewriters":
        description = _object(folder / REWRITERS.description)
        names = ("family", "base", "parameters", "seconds", "hardware")
        values = {name: description[name] for name in names if name in description}
        values |= description.get("metrics") or {}
    else:
        values = _object(folder / "run.json")
        for name in ("settings", "versions", "command", "machine", "git", "format"):
            values.pop(name, None)
    return dict(_flat(values)) if isinstance(values, dict) else {}


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name} ")
        elif isinstance(value, str | int | float):
            yield f"{prefix}{name}", f"{value:g}" if isinstance(value, float) else str(value)[:200]


def _tables(home: Path, group: RunGroup, folder: Path) -> Iterator[RunTable]:
    """Yield the measures of an evaluation, and what an adaptation changed."""
    measures = _object(folder / "metrics.json").get("metrics", [])
    yield from _table("Measured", [row for row in measures if row.get("part") == "all"])
    if group in ("adapt", "rewriters"):
        state = _object(home / FOLDERS["adapt"] / folder.name / "state.json")
        changes = state.get("done", {}).get("evaluate", {}).get("changes", [])
        yield from _table("Before and after, on questions held out", changes)


def _table(title: str, rows: list[dict[str, Any]]) -> Iterator[RunTable]:
    if rows:
        head = tuple(name for name in rows[0] if name != "part")
        cells = tuple(tuple(_cell(row.get(name)) for name in head) for row in rows[:ROWS])
        yield RunTable(title=title, head=head, rows=cells)


def _cell(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str("" if value is None else value)[:200]


def _object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; an empty one where it cannot be read."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
