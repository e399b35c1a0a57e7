"""Waiting in a test for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
LIMIT_SECONDS = 120.0


def eventually(condition: Callable[[], T], *, seconds: float = LIMIT_SECONDS) -> T:
    """Call `condition` until it returns something true, and return that. Fails with its last value after `seconds`.

    `eventually(lambda: path.exists())` waits for a file.
    """
    until = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < until, f"still {value!r} after {seconds:g} s"
        time.sleep(0.01)
    return value
