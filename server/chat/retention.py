"""Forgetting: traces that have been kept for as long as the settings say."""

from __future__ import annotations

import asyncio
import logging
import time

from server.store import Database, StoreError, turns

log = logging.getLogger(__name__)

EVERY_SECONDS = 3600.0
AT_ONCE = 200
"""Traces deleted in one transaction, so that a turn's own writes never wait long."""


async def forget_old_traces(database: Database, days: int) -> None:
    """Delete traces older than `days`, now and every hour, until cancelled; 0 days delete nothing."""
    while days:
        before = time.time() - days * 86_400
        try:
            while await _forget(database, before) == AT_ONCE:
                pass
        except StoreError as error:
            log.warning("old traces could not be deleted: %s", error)
        await asyncio.sleep(EVERY_SECONDS)


async def _forget(database: Database, before: float) -> int:
    return await database.write(lambda connection: turns.forget_traces(connection, before, AT_ONCE))
