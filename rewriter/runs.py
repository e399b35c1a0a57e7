"""Training runs of a home folder, and which of them serves.

`<home>/rewriters/<run>/` holds the runs and `promoted.json` beside them the names of the one that serves and of those
that did before it. Only this module writes it; `server.rewriters` reads it.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from rewriter.load import REWRITERS, RunKind, Serving, describe, load_rewriter
from rewriter.protocol import Conversation, Message, RunError
from text.files import NAME_RULE, is_name, write_json

PROMOTED = "promoted.json"
KEPT = 50
"""So many earlier promotions are remembered."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run of a home. `problem` says why it cannot serve: unfinished, or not readable; empty where it can."""

    name: str
    folder: Path
    family: str
    promoted: bool
    created: float
    size: int
    metrics: dict[str, Any]
    problem: str


def run_folder(home: Path, name: str, kind: RunKind = REWRITERS) -> Path:
    """Where the run of that name lies or would lie. Raises RunError for what cannot be a name."""
    if not is_name(name):
        raise RunError(f"{name!r} cannot name a run: use {NAME_RULE}; a folder of that name can be renamed.")
    return home / kind.folder / name


def list_runs(home: Path, kind: RunKind = REWRITERS) -> list[RunInfo]:
    """Every run, finished or not, newest first."""
    served = promoted_run(home) if kind == REWRITERS else ""
    folders = (path for path in (home / kind.folder).glob("*") if path.is_dir())
    return sorted((_info(folder, served, kind) for folder in folders), key=lambda run: run.created, reverse=True)


def promoted_run(home: Path) -> str:
    """The name of the promoted run, empty where none is. A damaged note counts as none here: it can be replaced."""
    return str(_note(home).get("run") or "")


def promoted_folder(home: Path) -> Path | None:
    """The folder of the promoted run, None where none was promoted; raises RunError for a damaged note of it."""
    path = home / REWRITERS.folder / PROMOTED
    try:
        run = json.loads(path.read_text("utf-8"))["run"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RunError(f"{path} cannot be read ({error!r}): promote a run again, or delete the file") from error
    return home / REWRITERS.folder / str(run) if run else None


def check(folder: Path) -> None:
    """Load a rewriter as the server would and ask it one question. Raises RunError where that fails."""
    rewriter = load_rewriter(folder, Serving(timeout_seconds=60.0))
    talk = Conversation((Message("user", "How do I renew my licence?"), Message("assistant", "Online or by mail.")))
    result = rewriter.rewrite(talk, "and by fax?")
    if result.decision == "failed":
        raise RunError(f"{folder.name} loads but cannot rewrite: {result.reason}")


def promote(home: Path, name: str) -> str:
    """Make the run serve, once it has been loaded and asked here; the name of the one it takes over from, or empty.

    Raises RunError where it is unfinished or damaged: then nothing changes.
    """
    folder = run_folder(home, name)
    if not folder.is_dir():
        names = ", ".join(run.name for run in list_runs(home)) or "none yet"
        raise RunError(f"There is no run {name!r} in {home / REWRITERS.folder}; there are: {names}.")
    check(folder)
    with _locked(home):
        note = _note(home)
        before = str(note.get("run") or "")
        if before != name:
            history = [*_history(note), before][-KEPT:]
            write_json(home / REWRITERS.folder / PROMOTED, {"run": name, "history": history, "time": time.time()})
    return before


def rollback(home: Path) -> str:
    """Bring back what served before the last promotion; its name, empty where that was the default.

    Raises RunError where nothing was promoted, or where the run before cannot serve any more.
    """
    with _locked(home):
        history = _history(_note(home))
        if not history:
            raise RunError(f"There is nothing to go back to: no {REWRITERS.what} was ever promoted here.")
        before = history[-1]
        if before:
            check(run_folder(home, before))
        write_json(home / REWRITERS.folder / PROMOTED, {"run": before, "history": history[:-1], "time": time.time()})
    return before


def _info(folder: Path, served: str, kind: RunKind) -> RunInfo:
    problem, description = "", dict[str, Any]()
    try:
        description = describe(folder, kind)
    except RunError as error:
        problem = str(error) if (folder / kind.description).is_file() else "unfinished"
    files = [path for path in folder.rglob("*") if path.is_file()]
    return RunInfo(
        name=folder.name,
        folder=folder,
        family=str(description.get("family", "")),
        promoted=folder.name == served,
        created=float(description.get("created") or folder.stat().st_mtime),
        size=sum(path.stat().st_size for path in files),
        metrics=dict(description.get("metrics") or {}),
        problem=problem,
    )


def _note(home: Path) -> dict[str, Any]:
    try:
        note = json.loads((home / REWRITERS.folder / PROMOTED).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def _history(note: dict[str, Any]) -> list[str]:
    history = note.get("history")
    return [str(name) for name in history] if isinstance(history, list) else []


def _locked(home: Path) -> FileLock:
    (home / REWRITERS.folder).mkdir(parents=True, exist_ok=True)
    return FileLock(home / REWRITERS.folder / f"{PROMOTED}.lock", timeout=30)
