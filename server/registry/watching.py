"""Seeing how far a download is whose own progress cannot be read: the size of the folder it writes to."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SECONDS = 0.2


def folder_size(folder: Path) -> int:
    """Bytes of all files below `folder`; files that vanish meanwhile count as nothing."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += os.stat(os.path.join(place, name)).st_size
    return size


@contextmanager
def watch(report: Callable[[], None]) -> Iterator[None]:
    """Call `report` from a thread of its own every `SECONDS` while the body runs."""
    finished = threading.Event()

    def loop() -> None:
        while not finished.wait(SECONDS):
            report()

    thread = threading.Thread(target=loop, name="download-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()
