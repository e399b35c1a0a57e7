"""Deliver what was handed over, until it has arrived: kept in the database, tried again, by one server at a time."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from plugins.handoff import adapters, store
from plugins.handoff.adapters import Content, DeliveryFailed
from plugins.handoff.settings import HandoffSettings
from server.store import StoreError

if TYPE_CHECKING:
    from server.chat import ChatService
    from server.chat.service import ServiceCore

log = logging.getLogger(__name__)

TICK = 2.0
"""Seconds between two looks at what is due."""


async def deliver(service: ChatService, tick: float = TICK) -> None:
    """Deliver what is due, until cancelled."""
    if service.core.settings.of(HandoffSettings).kind in ("", "link"):
        return
    while True:
        try:
            await deliver_due(service.core)
        except StoreError as error:
            log.warning("hand-offs are not looked at: %s", error)
        await asyncio.sleep(tick)


async def deliver_due(core: ServiceCore, now: float | None = None) -> None:
    """Try each delivery that is due once. Raises StoreError."""
    settings, database = core.settings.of(HandoffSettings), core.database
    while (row := await database.write(store.claim, time.time() if now is None else now)) is not None:
        try:
            content = Content.model_validate_json(row.content)
            reference = await asyncio.to_thread(adapters.deliver, settings, content)
        except DeliveryFailed as error:
            log.warning("hand-off %s could not be delivered and is tried again: %s", row.id, error)
            await database.write(store.failed, row.id, row.tries, str(error))
        else:
            await database.write(store.arrived, row.id, reference)
