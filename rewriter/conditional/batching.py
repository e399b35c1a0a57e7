"""Concurrent turns in one batch.

One thread owns the engine. While it works, whoever comes waits; then all who wait go in together. A turn alone is
served at once: nothing is ever delayed to fill a batch.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_BATCH = 16
IDLE_SECONDS = 60.0
"""A thread without work for so long ends: a rewriter that another took over from can then be forgotten."""


@dataclass(slots=True)
class _Ticket(Generic[Item, Result]):
    item: Item
    deadline: float
    done: threading.Event = field(default_factory=threading.Event)
    result: Result | None = None
    error: Exception | None = None
    abandoned: bool = False

    def unanswerable(self) -> bool:
        return self.abandoned or time.monotonic() > self.deadline


class Late(Exception):
    """The time of a request ran out before its result was there."""


class Batcher(Generic[Item, Result]):
    """Runs `work(items, stop)` over what waits, in order; results are parallel to items.

    `stop` turns True when nobody waits for the batch any more. The thread is a daemon, starts with a request and
    ends after `idle` seconds without one; `close` ends it for good.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Item], Callable[[], bool]], Sequence[Result]],
        max_batch: int = MAX_BATCH,
        idle: float = IDLE_SECONDS,
    ) -> None:
        self._work = work
        self._max = max_batch
        self._idle = idle
        self._waiting: deque[_Ticket[Item, Result]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, item: Item, seconds: float) -> Result:
        """The result for one item; raises Late after `seconds`, and what `work` raised."""
        ticket = _Ticket[Item, Result](item, time.monotonic() + seconds)
        with self._changed:
            if self._closed:
                raise RuntimeError("The rewriter is closed.")
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="rewriter", daemon=True)
                self._thread.start()
            self._waiting.append(ticket)
            self._changed.notify()
        try:
            finished = ticket.done.wait(seconds)
        finally:
            ticket.abandoned = not ticket.done.is_set()
        if not finished:
            raise Late(f"It took longer than {seconds:g} s.")
        if ticket.error is not None:
            raise ticket.error
        if ticket.result is None:
            raise Late(f"It took longer than {seconds:g} s.")
        return ticket.result

    def close(self) -> None:
        """End the thread once its batch is done; requests that wait are answered with Late."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(5.0)

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed, self._idle)
                if not self._waiting and not self._closed:
                    self._thread = None
                    return
                if self._closed:
                    for ticket in self._waiting:
                        ticket.done.set()
                    return
                batch = [self._waiting.popleft() for _ in range(min(self._max, len(self._waiting)))]
            self._handle([ticket for ticket in batch if not ticket.unanswerable()])

    def _handle(self, batch: list[_Ticket[Item, Result]]) -> None:
        if not batch:
            return
        try:
            results = self._work([ticket.item for ticket in batch], lambda: all(t.unanswerable() for t in batch))
            for ticket, result in zip(batch, results, strict=True):
                # What comes after its time may have been stopped in the midst.
                ticket.result = None if ticket.unanswerable() else result
        except Exception as error:  # noqa: BLE001  (handed to those who wait; the thread must outlive a bad batch)
            for ticket in batch:
                ticket.error = error
        for ticket in batch:
            ticket.done.set()
