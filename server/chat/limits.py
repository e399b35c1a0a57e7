"""Limits of one principal: requests and tokens a minute, and where they are counted.

A minute begins with the first request, or with the first tokens that are spent, and is counted beyond its limit: so
what a turn has spent counts in full against the next. The library `limits` counts, in this process or where a plugin
does (entry points `anaphora.counters`, by the scheme of `limits.store`). Quotas counted in the home itself (turns at
once, stored bytes, jobs) are read here with `quota` and counted where they are kept.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, get_args
from weakref import WeakValueDictionary

from server.access import DIAGNOSIS, LOCAL, Principal
from server.chat.base import LimitReached, QueueFull
from server.settings import LimitedRole, LimitsSettings
from server.tracing import Metrics
from text.modules import load_plugin

if TYPE_CHECKING:
    from limits.aio.strategies import FixedWindowRateLimiter


T = TypeVar("T")

log = logging.getLogger(__name__)

WINDOW_SECONDS = 60
_CLOCK_SECONDS = 1.0
_COUNTED = ("requests_per_minute", "tokens_per_minute")


@dataclass(frozen=True, slots=True)
class RateLimitStatus:
    """How one limit stands: `name` is `requests` or `tokens`, `seconds` until its minute is over."""

    name: str
    limit: int
    remaining: int
    seconds: int


class PrincipalLimits:
    """Counts what principals use. Nothing is loaded or counted where no limit is set."""

    def __init__(self, settings: LimitsSettings) -> None:
        """Raises MissingExtra where the store needs a library that is not installed."""
        self._settings = settings
        self._counter: Counter | None = None
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        if any(settings.of(role)[name] for role in get_args(LimitedRole) for name in _COUNTED):
            self._open()

    def quota(self, who: Principal, name: str) -> int:
        """Return a principal's limit for `name`, a setting of the group `limits`; 0 is no limit."""
        return self._settings.of("local" if who.id in (LOCAL.id, DIAGNOSIS.id) else who.role)[name]

    async def request(self, who: Principal) -> None:
        """Count a request. Raises LimitReached."""
        if (quota := self.quota(who, "requests_per_minute")) and (
            seconds := await self.hit("requests", who.account, quota)
        ):
            raise _reached(f"{quota} requests a minute are allowed", "requests_per_minute", seconds)

    async def standings(self, who: Principal) -> list[RateLimitStatus]:
        """How the limits of a principal stand, of those there are."""
        quotas = {name: self.quota(who, f"{name}_per_minute") for name in ("requests", "tokens")}
        return [await self._standing(name, who.account, quota) for name, quota in quotas.items() if quota]

    async def require_tokens(self, who: Principal) -> None:
        """Raises LimitReached where earlier turns have spent the tokens of this minute."""
        if quota := self.quota(who, "tokens_per_minute"):
            status = await self._standing("tokens", who.account, quota)
            if status.remaining <= 0:
                raise _reached(f"{quota:,} tokens a minute are allowed", "tokens_per_minute", status.seconds)

    async def spend(self, who: Principal, tokens: int) -> None:
        """Count what a turn has cost."""
        if tokens and (quota := self.quota(who, "tokens_per_minute")):
            await self.hit("tokens", who.account, quota, cost=tokens)

    async def hit(self, name: str, key: str, quota: int, *, seconds: int = WINDOW_SECONDS, cost: int = 1) -> int:
        """Count `cost` for a limit `name`; return in how many seconds there is room again, 0 if now."""
        from limits import RateLimitItemPerSecond

        item = RateLimitItemPerSecond(quota, seconds)
        if await self._open().count(lambda counter: counter.hit(item, name, key, cost=cost)):
            return 0
        return (await self._standing(name, key, quota, seconds)).seconds

    def one_at_a_time(self, who: Principal) -> asyncio.Lock:
        """Held while something is compared with a quota and then done, so that two at once do not both fit."""
        return self._locks.setdefault(who.account, asyncio.Lock())

    @property
    def problem(self) -> str:
        """Why this process counts by itself although it should not; empty where all is well."""
        return self._counter.problem if self._counter else ""

    async def look(self) -> str:
        """Ask the shared counters whether they answer; the `problem` if not."""
        if self._counter is not None:
            await self._counter.look()
        return self.problem

    async def close(self) -> None:
        """Let go of the connections."""
        if self._counter is not None:
            await self._counter.close()

    async def _standing(self, name: str, key: str, quota: int, seconds: int = WINDOW_SECONDS) -> RateLimitStatus:
        from limits import RateLimitItemPerSecond

        item = RateLimitItemPerSecond(quota, seconds)
        stats = await self._open().count(lambda counter: counter.get_window_stats(item, name, key))
        left = min(seconds, max(1, math.ceil(stats.reset_time - time.time())))
        return RateLimitStatus(name, quota, stats.remaining, left)

    def _open(self) -> Counter:
        if self._counter is None:
            scheme = self._settings.store.partition(":")[0]
            if scheme == "memory":
                self._counter = Counter()
            else:
                opened = load_plugin("anaphora.counters", scheme, kind="counter", builtin=("memory",))
                self._counter = opened(self._settings.store)
        return self._counter


class Counter:
    """Counts requests and tokens in this process.

    A plugin's counts elsewhere; its `problem` is why it counts in this process meanwhile.
    """

    problem = ""

    def __init__(self) -> None:
        from limits.aio.storage import MemoryStorage
        from limits.aio.strategies import FixedWindowRateLimiter

        self._limiter = FixedWindowRateLimiter(MemoryStorage())
        self._wall = time.time() - time.monotonic()

    async def count(self, work: Callable[[FixedWindowRateLimiter], Awaitable[T]]) -> T:
        """Return the result of `work` on the counters."""
        wall = time.time() - time.monotonic()
        if wall < self._wall - _CLOCK_SECONDS:
            # The clock was set back: what was counted would lie in the future, and stand until that has come.
            await self._limiter.storage.reset()
        self._wall = wall
        return await work(self._limiter)

    async def look(self) -> None:
        """Ask whether the counters answer, and set `problem`."""

    async def close(self) -> None:
        """Let go of the connections."""


def _reached(allowed: str, setting: str, seconds: int) -> LimitReached:
    return LimitReached(f"{allowed} (limits.{setting}), and they are used.", retry_after=seconds)


class QueueSlot:
    """A place among the turns: first in the queue, then among those that run. Given back once."""

    def __init__(self, admission: Admission, owner: str) -> None:
        self._admission = admission
        self.owner = owner
        self.turn = asyncio.get_running_loop().create_future()
        self.started = 0.0

    async def wait(self) -> None:
        """Until the turn may run."""
        await self.turn

    def release(self) -> None:
        """Give the place to the next; safe to call again."""
        self._admission.release(self)


QUEUE_LENGTH = 32
"""Turns that may wait; one more is told to come back later."""


class Admission:
    """At most `concurrent` turns at once and `QUEUE_LENGTH` waiting, first come first served."""

    def __init__(self, concurrent: int, metrics: Metrics) -> None:
        self._concurrent = concurrent
        self._metrics = metrics
        self._slots: list[QueueSlot] = []
        """As they came: the first `concurrent` run."""
        self._typical_seconds = 5.0

    def enter(self, owner: str = "", at_most: int = 0) -> QueueSlot:
        """Take a place, of which one owner has so many `at_most`; 0 is no limit. Raises QueueFull, LimitReached."""
        own = sum(slot.owner == owner for slot in self._slots)
        if at_most and own >= at_most:
            raise LimitReached(
                f"{own} questions of yours are being answered, and {at_most} at once are allowed "
                "(limits.concurrent_turns).",
                retry_after=max(1, math.ceil(self._typical_seconds)),
            )
        waiting = len(self._slots) - self._concurrent
        if waiting >= QUEUE_LENGTH:
            self._metrics.refused.inc()
            rounds = (waiting + 1) / self._concurrent
            raise QueueFull(
                f"{self._concurrent} questions are being answered and {waiting} wait already.",
                retry_after=max(1, min(120, math.ceil(rounds * self._typical_seconds))),
            )
        slot = QueueSlot(self, owner)
        self._slots.append(slot)
        self._serve()
        return slot

    def release(self, slot: QueueSlot) -> None:
        """Take a place back; one that is given back already stays so."""
        if slot in self._slots:
            self._slots.remove(slot)
            if slot.started:
                self._typical_seconds += 0.2 * (time.monotonic() - slot.started - self._typical_seconds)
            self._serve()

    def _serve(self) -> None:
        for slot in self._slots[: self._concurrent]:
            # The reader of one may have been cancelled without giving the place back yet.
            if not slot.turn.done():
                slot.started = time.monotonic()
                slot.turn.set_result(None)
        waiting = max(0, len(self._slots) - self._concurrent)
        self._metrics.running.set(len(self._slots) - waiting)
        self._metrics.waiting.set(waiting)
