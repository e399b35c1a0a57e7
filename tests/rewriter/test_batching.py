"""The batcher's thread: it comes with work, and goes when there is none."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Sequence

import pytest

from rewriter.conditional.serving import Batcher, Late


class Doubling:
    """Work on numbers."""

    def __call__(self, items: Sequence[int], stop: Callable[[], bool]) -> list[int]:
        return [2 * item for item in items]


def running() -> int:
    return sum(thread.name == "rewriter" and thread.is_alive() for thread in threading.enumerate())


def test_an_idle_thread_ends_and_another_comes_when_needed() -> None:
    before = running()
    batcher = Batcher[int, int](Doubling(), idle=0.05)
    for number in (3, 4):
        assert batcher.run(number, 30) == 2 * number
        until = time.monotonic() + 30
        while running() > before and time.monotonic() < until:
            time.sleep(0.01)
        assert running() == before


def test_what_nobody_uses_any_more_is_forgotten() -> None:
    batcher = Batcher[int, int](Doubling(), idle=0.05)
    assert batcher.run(1, 30) == 2
    gone = weakref.ref(batcher)
    del batcher
    until = time.monotonic() + 30
    while gone() is not None and time.monotonic() < until:
        time.sleep(0.02)
        gc.collect()
    assert gone() is None


def test_a_closed_batcher_takes_nothing() -> None:
    batcher = Batcher[int, int](Doubling())
    assert batcher.run(1, 30) == 2
    batcher.close()
    with pytest.raises(RuntimeError, match="closed"):
        batcher.run(1, 30)


def test_an_item_whose_time_is_over_is_not_worked_on() -> None:
    seen: list[int] = []
    entered, free = threading.Event(), threading.Event()

    def work(items: Sequence[int], stop: Callable[[], bool]) -> list[int]:
        seen.extend(items)
        entered.set()
        free.wait(30)
        return list(items)

    batcher = Batcher[int, int](work)
    first = threading.Thread(target=lambda: batcher.run(1, 60))
    first.start()
    assert entered.wait(30)
    with pytest.raises(Late):
        batcher.run(2, 0.05)
    free.set()
    first.join(30)
    assert batcher.run(3, 30) == 3
    assert seen == [1, 3]
