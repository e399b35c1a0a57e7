"""Requests to a language model that are never in the way of a turn.

A model that runs here answers turns and nothing else while there is one: such a request begins when no turn runs or
waits, is broken off when one comes, and begins again. Behind an address there is room for a few beside the turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from server.chat.admission import Admission

BESIDE = 4
"""Requests at once to a model behind an address."""


class Patience:
    """Runs requests one at a time between the turns, or a few at once beside them where the model is `remote`."""

    def __init__(self, admission: Admission, *, remote: bool) -> None:
        self._admission = admission
        self._remote = remote
        self._places = asyncio.Semaphore(BESIDE if remote else 1)

    async def __call__(self, call: Callable[[], Awaitable[str]]) -> str:
        """What `call` gives in the end; it may be begun more than once."""
        async with self._places:
            if self._remote:
                return await call()
            while True:
                await self._admission.idle.wait()
                asked = asyncio.ensure_future(call())
                entered = asyncio.ensure_future(self._admission.busy.wait())
                try:
                    await asyncio.wait({asked, entered}, return_when=asyncio.FIRST_COMPLETED)
                    if asked.done():
                        return asked.result()
                finally:
                    entered.cancel()
                    asked.cancel()
                    await asyncio.wait({asked, entered})
