"""Counters of limits in a Redis that several servers share.

While it does not answer, each process counts by itself: a lost Redis neither opens the server nor stops it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from server.chat.limits import Counter
from text.modules import need_extra

if TYPE_CHECKING:
    from limits.aio.strategies import FixedWindowRateLimiter

T = TypeVar("T")

log = logging.getLogger(__name__)

REDIS_SECONDS = 0.5
"""How long a Redis may take to answer before this process counts by itself."""

AGAIN_SECONDS = 5.0
"""After so long a Redis that did not answer is asked again."""


class RedisCounter(Counter):
    """A Redis by its URL; this process counts while it does not answer. Raises MissingExtra."""

    def __init__(self, url: str) -> None:
        need_extra("redis", "Counting in a Redis", "redis")
        from limits.aio.storage import RedisStorage
        from limits.aio.strategies import FixedWindowRateLimiter
        from redis.asyncio import ConnectionPool

        super().__init__()
        self._ask_again = 0.0
        self._pool = ConnectionPool.from_url(url)
        options: dict[str, Any] = {"connection_pool": self._pool, "key_prefix": "anaphora"}
        storage = RedisStorage(f"async+{url}", wrap_exceptions=True, implementation="redispy", **options)
        self._shared = FixedWindowRateLimiter(storage)

    async def count(self, work: Callable[[FixedWindowRateLimiter], Awaitable[T]]) -> T:
        """Return the result of `work` on the counters that several servers share, or on those of this process."""
        from limits.errors import StorageError

        if time.monotonic() < self._ask_again:
            return await super().count(work)
        try:
            async with asyncio.timeout(REDIS_SECONDS):
                result = await work(self._shared)
        except (StorageError, TimeoutError, OSError) as error:
            if not self.problem:
                log.warning("the Redis of limits.store does not answer (%s); this process counts by itself", error)
            self.problem = "The Redis that counts what each may use does not answer; every server counts alone."
            self._ask_again = time.monotonic() + AGAIN_SECONDS
            return await super().count(work)
        self.problem = ""
        return result

    async def look(self) -> None:
        """Ask the Redis whether it answers, and set `problem`."""
        await self.count(lambda counter: counter.storage.get("anybody"))

    async def close(self) -> None:
        await self._pool.aclose()
