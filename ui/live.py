"""Turns that are running now: reading their events, pacing what is shown, stopping them.

A turn is stopped by its reader, by its tab closing, or by its own end; in every case the service's
iterator is closed, which stops the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from server.chat import ChatError, ChatService, Conflict, Event, TurnRequest

PACE = 0.05
"""Seconds between two pictures of a streaming answer at least."""


class LiveTurns:
    """The running turns of this page's visitors, by the name the tab gave them."""

    def __init__(self) -> None:
        self._stops: dict[str, tuple[str, asyncio.Event]] = {}

    def stop(self, stream: str) -> bool:
        """Stop one turn; False where it is not running. Only the tab that named it knows the name."""
        if stream not in self._stops:
            return False
        self._stops[stream][1].set()
        return True

    def leave(self, tab: str) -> None:
        """The tab was closed: stop everything it had running."""
        for owner, stop in self._stops.values():
            if owner == tab:
                stop.set()

    def __len__(self) -> int:
        """How many turns are running."""
        return len(self._stops)

    async def follow(
        self, service: ChatService, request: TurnRequest, tab: str, stream: str
    ) -> AsyncIterator[list[Event]]:
        """The events of a turn in batches, `PACE` apart; ends early when stopped.

        Raises what the service raises. Leaving the iterator in any way ends the turn.
        """
        if stream in self._stops:
            raise Conflict("This question is being answered already.")
        stop = asyncio.Event()
        self._stops[stream] = tab, stop
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        reading = asyncio.create_task(_read(service, request, events))
        stopping = asyncio.create_task(stop.wait())
        try:
            ended = False
            while not ended:
                waiting = asyncio.create_task(events.get())
                await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if stop.is_set():
                    waiting.cancel()
                    return
                batch = [await waiting]
                while not events.empty():
                    batch.append(events.get_nowait())
                ended = batch[-1] is None
                if known := [event for event in batch if event is not None]:
                    yield known
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), PACE if not ended else 0)
            await reading
        finally:
            self._stops.pop(stream, None)
            stopping.cancel()
            reading.cancel()
            # The turn is kept as interrupted by the time it is read again.
            with suppress(asyncio.CancelledError, ChatError):
                await reading


async def _read(service: ChatService, request: TurnRequest, events: asyncio.Queue[Event | None]) -> None:
    try:
        async for event in service.turn(request):
            events.put_nowait(event)
    finally:
        events.put_nowait(None)
