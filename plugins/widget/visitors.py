"""Visitors of a web site: who acts for one, how often, what is kept of one and for how long.

A visitor is a random text of the browser, of which only a hash is kept. A turn belongs to `key:KEY/HASH`, and has the
rights of the key.
"""

from __future__ import annotations

import hashlib

from sqlalchemy import Connection, delete, select

from plugins.widget import WidgetSettings
from server.access import Principal
from server.api.security import network
from server.chat import ChatService, Forbidden
from server.chat.base import LimitReached
from server.chat.service import purge_expired
from server.store import turns
from server.store.schema import TURNS, erased_tables
from text.languages import gettext

VISITOR = "[A-Za-z0-9-]{16,64}"
"""A text that the browser of a visitor chose at random. Nothing else is known of the visitor."""
_TURN_COST = 10
"""Searches while somebody types that count as a turn."""
_MINUTE, _HOUR = 60, 3600


def demand_site(service: ChatService) -> WidgetSettings:
    """Return the settings. Raises Forbidden unless they name a site and the key is a visitor's."""
    settings = service.settings.of(WidgetSettings)
    if not settings.origins:
        raise Forbidden("The widget is off; an operator names its sites with plugins.widget.origins.")
    who = service.principal
    if who.role != "visitor":
        raise Forbidden(
            "The widget takes a key of the role visitor alone, which opens nothing else: whoever sees the site can "
            "read it. Make one with `anaphora keys create NAME --role visitor`."
        )
    return settings


def for_visitor(service: ChatService, visitor: str) -> ChatService:
    """Return the service for a visitor: turns are the visitor's, rights and limits those of the site's key."""
    demand_site(service)
    if not visitor:
        return service
    pseudonym = hashlib.blake2b(visitor.encode(), digest_size=8).hexdigest()
    return service.as_principal(service.principal.for_visitor(pseudonym))


async def count_turn(visited: ChatService, cost: int = _TURN_COST) -> None:
    """Count a turn of a visitor and of the address, or with a `cost` of 1 a search. Raises LimitReached."""
    settings = visited.settings.of(WidgetSettings)
    await _count(visited, "turns", settings.visitor_per_minute, settings.address_per_minute, _MINUTE, cost)


async def count_form(visited: ChatService) -> None:
    """Count a form or a rating that a visitor sends. Raises LimitReached."""
    settings = visited.settings.of(WidgetSettings)
    await _count(visited, "forms", settings.forms_per_hour, settings.forms_per_hour, _HOUR)


async def _count(
    visited: ChatService, name: str, visitor: int, address: int, seconds: int, cost: int = _TURN_COST
) -> None:
    who = visited.principal
    for what, quota, key in (("visitor", visitor, who.id), ("address", address, network(who.origin))):
        if not quota or not key:
            continue
        waits = await visited.core.limits.hit(
            f"widget-{name}-{what}", key, quota * _TURN_COST, seconds=seconds, cost=cost
        )
        if waits:
            raise LimitReached(gettext("You have asked a lot; please wait a little."), retry_after=waits)


def forget(connection: Connection, who: Principal) -> int:
    """Delete the turns of a visitor with what hangs on them, and return how many there were."""
    for table in erased_tables():
        connection.execute(delete(table).where(table.c.owner == who.id))
    return connection.execute(delete(TURNS).where(TURNS.c.owner == who.id)).rowcount


def forget_old(connection: Connection, before: float, limit: int) -> int:
    """Delete at most `limit` turns of visitors that were begun before a time, rated or not; return how many."""
    old = select(TURNS.c.id).where(turns.OF_VISITORS, TURNS.c.created < before).limit(limit)
    return connection.execute(delete(TURNS).where(TURNS.c.id.in_(old))).rowcount


async def purge(service: ChatService) -> None:
    """Delete what is older than `plugins.widget.days`, until cancelled."""
    days = service.settings.of(WidgetSettings).days
    await purge_expired(service.core.database, "visitors' turns", forget_old, days)
