"""Lock of a home folder: one server, or one backup, at a time.

The operating system releases the lock however its process ends; a note beside it names the holder.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from server.store.records import HomeBusy
from text.files import write_text


@contextmanager
def hold_home(home: Path, *, claim: str = "home", doing: str = "anaphora serve") -> Iterator[None]:
    """Keep other processes from the same `claim` on a home; `doing` is what they are told this one does.

    Raises HomeBusy at once where another has it, OSError where the folder cannot be written to.
    """
    home.mkdir(parents=True, exist_ok=True)
    note = home / f"{claim}.json"
    # Not of one thread: a test takes it in one and lets go of it in another.
    lock = FileLock(home / f"{claim}.lock", timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise HomeBusy(
            f"{home} is in use by {_holder(note)}. End that process first, or choose another folder with --home."
        ) from None
    try:
        write_text(note, json.dumps({"pid": os.getpid(), "doing": doing, "since": time.time()}))
        yield
    finally:
        note.unlink(missing_ok=True)
        lock.release()


def _holder(note: Path) -> str:
    try:
        holder = json.loads(note.read_text("utf-8"))
        since = datetime.fromtimestamp(holder["since"]).astimezone()
        return f"`{holder['doing']}`, process {holder['pid']}, since {since:%Y-%m-%d %H:%M:%S %Z}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
