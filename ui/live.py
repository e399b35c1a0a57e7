"""Turns that are running now: reading their events, pacing what is shown, stopping them.

A turn is stopped by its reader, by its tab closing, or by its own end; in every case the service's
iterator is closed, which stops the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeAlias

from server.chat import ChatService, Conflict, Event, TurnRequest

PACE = 0.05
"""Seconds between two pictures of a streaming answer at least."""


Tab: TypeAlias = tuple[str, str]
"""Whose tab it is, and what it is called."""


class LiveTurns:
    """The running turns of this page's visitors, by whose they are and the name the tab gave them."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, str], tuple[Tab, asyncio.Task[None]]] = {}

    def stop(self, owner: str, stream: str) -> bool:
        """Stop one turn of `owner`; False where it is not running."""
        if (owner, stream) not in self._running:
            return False
        self._running[owner, stream][1].cancel()
        return True

    def disconnect(self, tab: Tab) -> None:
        """The tab was closed: stop everything it had running."""
        for owner, reading in self._running.values():
            if owner == tab:
                reading.cancel()

    def __len__(self) -> int:
        """How many turns are running."""
        return len(self._running)

    async def follow(
        self, service: ChatService, request: TurnRequest, tab: Tab, stream: str
    ) -> AsyncIterator[list[Event]]:
        """The events of a turn in batches, `PACE` apart; ends early when stopped.

        Raises what the service raises. Leaving the iterator in any way ends the turn; `stop` and `disconnect`
        end it even if nobody asks the iterator for more, for Gradio forgets iterators of closed tabs.
        """
        key = tab[0], stream
        if key in self._running:
            raise Conflict("This question is being answered already.")
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        reading = asyncio.create_task(_read(service, request, events))
        self._running[key] = tab, reading
        reading.add_done_callback(lambda _: self._ended(key, events))
        try:
            ended = False
            while not ended:
                batch = [await events.get()]
                while not events.empty():
                    batch.append(events.get_nowait())
                ended = batch[-1] is None
                if known := [event for event in batch if event is not None]:
                    yield known
                await asyncio.wait({reading}, timeout=PACE)
            if not reading.cancelled():
                reading.result()
        finally:
            reading.cancel()
            # The turn is kept as interrupted by the time it is read again.
            await asyncio.wait({reading})

    def _ended(self, key: tuple[str, str], events: asyncio.Queue[Event | None]) -> None:
        del self._running[key]
        events.put_nowait(None)


async def _read(service: ChatService, request: TurnRequest, events: asyncio.Queue[Event | None]) -> None:
    async for event in service.turn(request):
        events.put_nowait(event)
