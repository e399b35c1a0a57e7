"""Write the progress of a command into its folder, as `progress.json`, for other processes to read.

A command opens `recording(folder)` once; whatever runs inside it calls `report`. The workbench reads the file and never
starts a command or parses its log.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from text.files import write_text

FILE = "progress.json"
EVERY_SECONDS = 0.5
"""Least time between two writes of the same stage."""

ProgressState: TypeAlias = Literal["running", "done", "failed", "stopped"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a command is: `done` of `total` (0: not known) in a stage. `updated` is in seconds since the epoch."""

    state: ProgressState
    command: str
    stage: str = ""
    done: int = 0
    total: int = 0
    error: str = ""
    started: float = 0.0
    updated: float = 0.0
    pid: int = 0

    @property
    def alive(self) -> bool:
        """Whether the command still runs, as far as this machine knows its process."""
        if self.state != "running":
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True


class _Recorder:
    def __init__(self, folder: Path, command: str) -> None:
        self._folder = folder
        self._progress = Progress("running", command, started=time.time(), pid=os.getpid())
        self._written = 0.0

    def update(self, *, now: bool = False, **changes: object) -> None:
        stage = self._progress.stage
        self._progress = Progress(**{**asdict(self._progress), **changes, "updated": time.time()})
        ended = self._progress.total and self._progress.done >= self._progress.total
        if not (now or ended) and stage == self._progress.stage and time.monotonic() - self._written < EVERY_SECONDS:
            return
        self._written = time.monotonic()
        # A disk that is full stops no command because of this file.
        with suppress(OSError):
            write_text(self._folder / FILE, json.dumps(asdict(self._progress)))


_CURRENT: ContextVar[_Recorder | None] = ContextVar("progress", default=None)


@contextmanager
def recording(folder: Path, command: str) -> Iterator[None]:
    """Record the progress of what runs inside into `folder`, which is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    recorder = _Recorder(folder, command)
    recorder.update(now=True)
    token = _CURRENT.set(recorder)
    try:
        yield
    except KeyboardInterrupt:
        recorder.update(now=True, state="stopped")
        raise
    except BaseException as error:
        ended = getattr(error, "exit_code", None) == 0
        recorder.update(now=True, state="done" if ended else "failed", error="" if ended else str(error)[:500])
        raise
    else:
        recorder.update(now=True, state="done")
    finally:
        _CURRENT.reset(token)


def report(stage: str, done: int, total: int) -> None:
    """Tell how far the current command is; does nothing outside `recording`. Cheap enough to call for each item."""
    if recorder := _CURRENT.get():
        recorder.update(stage=stage, done=done, total=total)


def read_progress(folder: Path) -> Progress | None:
    """Return the progress recorded in a folder, or None if there is none or it cannot be read."""
    try:
        row = json.loads((folder / FILE).read_text("utf-8"))
        return Progress(**{name: row[name] for name in Progress.__dataclass_fields__ if name in row})
    except (OSError, ValueError, TypeError, KeyError):
        return None
