"""Sources are read when they are due, and folders when something in them changes, as long as a server runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from server.chat.error_mapping import ChatError

if TYPE_CHECKING:
    from server.chat.service import ChatService

log = logging.getLogger(__name__)

TICK = 5.0
"""Seconds between two looks at what is due."""


async def keep_fresh(service: ChatService, tick: float = TICK) -> None:
    """Submit a job for each source that is due or has changed, until cancelled."""
    from watchfiles import awatch

    folders, changed = dict[str, str](), set[str]()
    while True:
        watching = awatch(*folders, rust_timeout=int(1000 * tick), yield_on_timeout=True) if folders else _ticks(tick)
        async for changes in watching:
            paths = [Path(path) for _, path in changes]
            changed |= {name for folder, name in folders.items() if any(path.is_relative_to(folder) for path in paths)}
            try:
                watched = await service.sync_due(changed)
            except ChatError as error:
                log.warning("sources are not looked at: %s", error)
                continue
            if watched != folders:
                folders = watched
                break


async def _ticks(seconds: float) -> AsyncIterator[set[tuple[int, str]]]:
    while True:
        yield set()
        await asyncio.sleep(seconds)
