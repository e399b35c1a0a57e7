"""Progress of a long command, written to `progress.json` in the folder of its run so that a page can show it.

The command holds a lock on `progress.lock` while it works. The operating system releases the lock however the process
ends, so a file that says "running" beside a free lock belongs to a command that was killed.
"""

from __future__ import annotations

import json
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Literal, TypeAlias

from text.files import write_json

PROGRESS = "progress.json"
LOCK = "progress.lock"
WRITE_SECONDS = 1.0
"""Shortest time between two writes of the same stage."""
COMMAND_CHARS = 2000

ProgressStatus: TypeAlias = Literal["running", "done", "failed", "stopped"]
Report: TypeAlias = Callable[[str, int, int], None]
"""Takes the stage, the items done and the items there are (0: unknown)."""


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Progress of a run. `rate` is items a second in this stage; times are seconds since 1970."""

    command: str
    started: float
    updated: float
    status: ProgressStatus = "running"
    stage: str = ""
    done: int = 0
    total: int = 0
    rate: float = 0.0
    error: str = ""


class _ProgressFile:
    """The file of one run; may be used from any thread."""

    def __init__(self, folder: Path) -> None:
        now = time.time()
        command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])[:COMMAND_CHARS]
        self._path = folder / PROGRESS
        self._lock = threading.Lock()
        self._progress = RunProgress(command, now, now)
        self._written = 0.0
        self._stage_began = time.monotonic()
        self._done_before = 0
        self._write()

    def report(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        with self._lock:
            new_stage = stage != self._progress.stage
            if new_stage:
                self._stage_began, self._done_before = now, done
            seconds = now - self._stage_began
            rate = (done - self._done_before) / seconds if seconds > 0 else 0.0
            self._progress = replace(self._progress, stage=stage, done=done, total=total, rate=round(rate, 3))
            if new_stage or done == total or now - self._written >= WRITE_SECONDS:
                self._write()

    def end(self, status: ProgressStatus, error: str = "") -> None:
        with self._lock:
            self._progress = replace(self._progress, status=status, error=error)
            self._write()

    def _write(self) -> None:
        self._written = time.monotonic()
        self._progress = replace(self._progress, updated=time.time())
        # A run goes on without its progress; a full disk ends it elsewhere, with a better message.
        with suppress(OSError):
            write_json(self._path, asdict(self._progress))


_ACTIVE: ContextVar[tuple[_ProgressFile, ...]] = ContextVar("active_progress", default=())


@contextmanager
def track_progress(folder: Path) -> Iterator[None]:
    """Keep `folder/progress.json` up to date while the block runs, with the outcome at its end.

    Blocks may be nested: a report then goes to every open file. Where another process tracks this folder already,
    nothing is written. Raises OSError where the folder cannot be made.
    """
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = FileLock(folder / LOCK).acquire(timeout=0)
    except Timeout:
        yield
        return
    with lock:
        file = _ProgressFile(folder)
        token = _ACTIVE.set((*_ACTIVE.get(), file))
        try:
            yield
        except KeyboardInterrupt:
            file.end("stopped")
            raise
        except Exception as error:
            file.end("failed", str(error) or type(error).__name__)
            raise
        else:
            file.end("done")
        finally:
            _ACTIVE.reset(token)


def progress_reporter() -> Report:
    """Return a callback that reports to every file open here; it may be called from other threads."""
    files = _ACTIVE.get()

    def report(stage: str, done: int, total: int) -> None:
        for file in files:
            file.report(stage, done, total)

    return report


def read_progress(folder: Path) -> RunProgress | None:
    """Return the progress of the run in `folder`, or None where there is no readable file."""
    try:
        row = json.loads((folder / PROGRESS).read_text("utf-8"))
        names = {field.name for field in fields(RunProgress)}
        return RunProgress(**{name: value for name, value in row.items() if name in names})
    except (OSError, ValueError, TypeError, AttributeError):
        return None
