"""How runs stand, from the files in their folders: what the command wrote, its log, and its record where it was started
here. Bounded: of a log its end is read, of a table its beginning shown.

Nothing is written, and nothing that cannot be read raises: a run is then shown without it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rewriter.load import READERS
from rewriter.runs import promoted_run
from server.runs.commands import LOG, RECORD, CommandRunner
from server.runs.plans import FOLDERS
from server.runs.promotion import KINDS
from server.runs.records import (
    CommandRecord,
    RunCurve,
    RunDetail,
    RunGroup,
    RunState,
    RunSummary,
    RunTable,
)
from text.names import is_name

LOG_BYTES = 1 << 20
LOG_LINES = 200
FIGURES = 80
ROWS = 200
_STEP = re.compile(r"step (\d+)/(\d+): (dev )?loss (\d+\.\d+)")
_COUNT = re.compile(r"(?:^|: )([^:]{1,80}): ([\d,]+) of ([\d,]+)")
_FINISHED: Mapping[RunGroup, str] = {
    "synth": "dialogs.train.jsonl",
    "eval": "run.json",
    "diagnose": "failures.jsonl",
    "rewriters": KINDS["rewriters"].description,
    "rerankers": KINDS["rerankers"].description,
    "readers": READERS.description,
}
"""The file that a command writes last."""


@dataclass(frozen=True, slots=True)
class RunReader:
    """The runs of a home; `commands` knows which of them run."""

    home: Path
    commands: CommandRunner

    def listing(self) -> list[RunSummary]:
        """Every run of every group, those begun last first."""
        found = [
            RunSummary.model_validate(self._summary(group, folder))
            for group, place in FOLDERS.items()
            for folder in (self.home / place).glob("*")
            if folder.is_dir() and is_name(folder.name)
        ]
        return sorted(found, key=lambda run: run.started, reverse=True)

    def detail(self, group: RunGroup, name: str) -> RunDetail | None:
        """All there is to show of a run; None where there is none of that name."""
        folder = self.home / FOLDERS[group] / name
        if not is_name(name) or not folder.is_dir():
            return None
        record, lines = read_record(folder), _log(folder)
        return RunDetail(
            **self._summary(group, folder),
            command=shlex.join(("anaphora", *record.arguments)) if record else "",
            fields=record.fields if record else {},
            who=record.who if record else "",
            figures=dict(islice(_figures(group, folder).items(), FIGURES)),
            curves=_curves(folder, lines),
            tables=tuple(self._tables(group, folder)),
            log=tuple(lines[-LOG_LINES:]),
        )

    def _summary(self, group: RunGroup, folder: Path) -> dict[str, Any]:
        record = read_record(folder)
        state = self._state(group, folder, record)
        doing, done, total = "", 0, 0
        if record is not None and state != "done":
            doing, done, total = _progress(_log(folder, LOG_BYTES >> 4))
        promoted = group in KINDS and promoted_run(self.home, KINDS[group]) == folder.name
        return {
            "group": group,
            "name": folder.name,
            "state": state,
            "started": record.started if record else folder.stat().st_mtime,
            "ended": record.ended if record else None,
            "doing": doing,
            "done": done,
            "total": total,
            "promoted": promoted,
            "promotable": group in KINDS and _finished(group, folder) and not promoted,
            "resumable": record is not None and state in ("failed", "stopped", "interrupted"),
            "report": group in ("eval", "diagnose") and _finished(group, folder),
            "problem": _problem(folder) if state == "failed" else "",
        }

    def _tables(self, group: RunGroup, folder: Path) -> Iterator[RunTable]:
        """Rows of measures: what an evaluation measured; what changed by an adaptation, beside what it trained too."""
        measured = _json(folder / "metrics.json").get("metrics", [])
        yield from _table("Measured", [row for row in measured if row.get("part") == "all"])
        if group == "adapt" or group in KINDS:
            state = _json(self.home / FOLDERS["adapt"] / folder.name / "state.json")
            changes = state.get("done", {}).get("evaluate", {}).get("changes", [])
            yield from _table("Before and after, on questions held out", changes)

    def _state(self, group: RunGroup, folder: Path, record: CommandRecord | None) -> RunState:
        if record is None:
            return "done" if _finished(group, folder) else "unfinished"
        if record.ended is None:
            return "running" if self.commands.is_alive(record, folder) else "interrupted"
        if record.code == 0:
            return "done"
        return "stopped" if record.stopped else "failed"


def read_record(folder: Path) -> CommandRecord | None:
    """What was started in a folder; None where that was in a terminal, or the record is damaged."""
    try:
        return CommandRecord.model_validate_json((folder / RECORD).read_bytes())
    except (OSError, ValidationError):
        return None


def _finished(group: RunGroup, folder: Path) -> bool:
    if group == "adapt":
        return "evaluate" in _json(folder / "state.json").get("done", {})
    return (folder / _FINISHED[group]).is_file()


def _log(folder: Path, size: int = LOG_BYTES) -> list[str]:
    try:
        with (folder / LOG).open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - size))
            return file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def _progress(lines: list[str]) -> tuple[str, int, int]:
    """What the last line that counts says: of what, how much, of how much."""
    for line in reversed(lines):
        if found := _STEP.search(line):
            return "training", int(found[1]), int(found[2])
        if found := _COUNT.search(line):
            return found[1].strip(), *(int(number.replace(",", "")) for number in found.groups()[1:])  # type: ignore[return-value]
    return "", 0, 0


def _problem(folder: Path) -> str:
    said = [line for line in _log(folder, LOG_BYTES >> 8) if line.startswith("error:")]
    return said[-1].removeprefix("error:").strip() if said else "It failed; its log says why."


def _json(path: Path) -> dict[str, Any]:
    found = _read(path)
    return found if isinstance(found, dict) else {}


def _read(path: Path) -> Any:
    """What a file holds as JSON; None where it cannot be read."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None


def _figures(group: RunGroup, folder: Path) -> dict[str, str]:
    """Names and numbers of what a run came to."""
    if group == "adapt":
        found = _json(folder / "state.json").get("done", {})
    elif group in KINDS:
        kept = _json(folder / KINDS[group].description)
        found = {name: kept[name] for name in ("family", "base", "parameters", "seconds", "hardware") if name in kept}
        found |= kept.get("metrics") or {}
    else:
        found = _json(folder / "run.json")
        for name in ("settings", "versions", "command", "machine", "git", "format"):
            found.pop(name, None)
    return dict(_flat(found)) if isinstance(found, dict) else {}


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name} ")
        elif isinstance(value, float):
            yield f"{before}{name}", f"{value:g}"
        elif isinstance(value, str | int):
            yield f"{before}{name}", str(value)[:200]


def _curves(folder: Path, lines: list[str]) -> tuple[RunCurve, ...]:
    """Losses over steps, by stage: those a run has written down, and what its log says of those since."""
    found: dict[str, dict[float, float]] = {}
    for stage in sorted((folder / "stages").glob("*"), key=lambda path: path.stat().st_mtime):
        for entry in _written(stage):
            for key, name in (("loss", "loss"), ("eval_loss", "dev loss")):
                if isinstance(entry.get(key), int | float) and isinstance(entry.get("step"), int):
                    found.setdefault(f"{stage.name}: {name}", {})[entry["step"]] = float(entry[key])
    stage_name = ""
    for line in lines:
        if begun := re.search(r": ([\w.-]+): [\d,]+ examples$", line):
            stage_name = begun[1]
        elif told := _STEP.search(line):
            curve = found.setdefault(f"{stage_name or 'training'}: {told[3] or ''}loss", {})
            curve.setdefault(int(told[1]), float(told[4]))
    return tuple(RunCurve(name=name, points=tuple(sorted(points.items()))) for name, points in found.items())


def _written(stage: Path) -> list[dict[str, Any]]:
    """The log of a stage: of a finished one, else as its newest checkpoint kept it."""
    newest = sorted(stage.glob("checkpoint-*/trainer_state.json"), key=lambda path: path.stat().st_mtime)[-1:]
    for path in (stage / "log.json", *newest):
        if found := _read(path):
            rows = found.get("log_history") if isinstance(found, dict) else found
            return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return []


def _table(title: str, rows: list[dict[str, Any]]) -> Iterator[RunTable]:
    if rows:
        head = tuple(name for name in rows[0] if name != "part")
        cells = tuple(tuple(_cell(row.get(name)) for name in head) for row in rows[:ROWS])
        yield RunTable(title=title, head=head, rows=cells)


def _cell(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str("" if value is None else value)[:200]
