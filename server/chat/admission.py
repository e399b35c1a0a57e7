"""Admission of turns: run now, wait, or be turned away."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable

from server.chat.error_mapping import LimitReached, QueueFull
from server.metrics import Metrics


class QueueSlot:
    """A place among the turns: first in the queue, then among those that run. Given back once."""

    def __init__(self, admission: Admission, owner: str) -> None:
        self._admission = admission
        self.owner = owner
        self._turn = asyncio.get_running_loop().create_future()
        self.running = False
        self.started = 0.0

    async def wait(self) -> None:
        """Until the turn may run."""
        await self._turn

    def release(self) -> None:
        """Give the place to the next; safe to call again."""
        self._admission._release(self)


class Admission:
    """At most `concurrent` turns at once and `queue_length` waiting, first come first served."""

    def __init__(self, concurrent: int, queue_length: int, metrics: Metrics) -> None:
        self._concurrent = concurrent
        self._queue_length = queue_length
        self._metrics = metrics
        self._running: set[QueueSlot] = set()
        self._waiting: deque[QueueSlot] = deque()
        self._typical_seconds = 5.0
        self.idle, self.busy = asyncio.Event(), asyncio.Event()
        """No turn runs or waits; one does. What need not be done now looks at these."""
        self.idle.set()

    def enter(self, owner: str = "", at_most: int = 0) -> QueueSlot:
        """Take a place, of which one owner has so many `at_most`; 0 is no limit. Raises QueueFull, LimitReached."""
        own = sum(ticket.owner == owner for ticket in (*self._running, *self._waiting)) if at_most else 0
        if at_most and own >= at_most:
            raise LimitReached(
                f"{own} questions of yours are being answered, and {at_most} at once are allowed "
                "(limits.concurrent_turns).",
                retry_after=max(1, math.ceil(self._typical_seconds)),
            )
        ticket = QueueSlot(self, owner)
        if len(self._running) < self._concurrent:
            self._start(ticket)
        elif len(self._waiting) < self._queue_length:
            self._waiting.append(ticket)
        else:
            self._metrics.refused.inc()
            raise QueueFull(
                f"{len(self._running)} questions are being answered and {len(self._waiting)} wait already.",
                retry_after=self._retry_after(),
            )
        self._count()
        return ticket

    def _start(self, ticket: QueueSlot) -> None:
        ticket.running, ticket.started = True, time.monotonic()
        self._running.add(ticket)
        ticket._turn.set_result(None)

    def _release(self, ticket: QueueSlot) -> None:
        if ticket in self._running:
            self._running.remove(ticket)
            self._typical_seconds += 0.2 * (time.monotonic() - ticket.started - self._typical_seconds)
        elif ticket in self._waiting:
            self._waiting.remove(ticket)
        while self._waiting and len(self._running) < self._concurrent:
            following = self._waiting.popleft()
            # Its reader may have been cancelled without giving the place back yet.
            if not following._turn.done():
                self._start(following)
        self._count()

    def _retry_after(self) -> int:
        ahead = (len(self._waiting) + 1) / self._concurrent
        return max(1, min(120, math.ceil(ahead * self._typical_seconds)))

    def _count(self) -> None:
        self._metrics.running.set(len(self._running))
        self._metrics.waiting.set(len(self._waiting))
        now, then = (self.busy, self.idle) if self._running or self._waiting else (self.idle, self.busy)
        now.set()
        then.clear()


BESIDE = 4
"""Requests at once to a model behind an address."""


class Patience:
    """Runs requests one at a time between the turns, or a few at once beside them where the model is `remote`."""

    def __init__(self, admission: Admission, *, remote: bool) -> None:
        self._admission = admission
        self._remote = remote
        self._places = asyncio.Semaphore(BESIDE if remote else 1)

    async def __call__(self, call: Callable[[], Awaitable[str]]) -> str:
        """Return the result of `call`, which may be started more than once."""
        async with self._places:
            if self._remote:
                return await call()
            while True:
                await self._admission.idle.wait()
                task = asyncio.ensure_future(call())
                entered = asyncio.ensure_future(self._admission.busy.wait())
                try:
                    await asyncio.wait({task, entered}, return_when=asyncio.FIRST_COMPLETED)
                    if task.done():
                        return task.result()
                finally:
                    entered.cancel()
                    task.cancel()
                    await asyncio.wait({task, entered})
