"""Which groups may use which collection. One that was granted to nobody belongs to the group `default`."""

from __future__ import annotations

import time

from sqlalchemy import Connection, delete, select

from server.access import DEFAULT_GROUP
from server.store.dialects import put
from server.store.schema import GRANTS


def of(connection: Connection, collection: str) -> list[str]:
    """The groups a collection was granted to, by name; none where it belongs to `default`."""
    granted = select(GRANTS.c.group_name).where(GRANTS.c.collection == collection).order_by(GRANTS.c.group_name)
    return list(connection.scalars(granted))


def everything(connection: Connection) -> dict[str, list[str]]:
    """The groups of every collection that was granted to any."""
    granted, groups = GRANTS.c["collection", "group_name"], dict[str, list[str]]()
    for collection, group in connection.execute(select(*granted).order_by(*granted)):
        groups.setdefault(collection, []).append(group)
    return groups


def add(connection: Connection, collection: str, group: str) -> None:
    """Grant a collection to a group. One that exists and was granted to nobody stays with `default` only if so said."""
    put(connection, GRANTS, {"collection": collection, "group_name": group, "created": time.time()}, keep=True)


def remove(connection: Connection, collection: str, group: str) -> bool:
    """Take a grant back; False where there is none, also of the last one: that would open it to `default`."""
    left = [name for name in of(connection, collection) if name != group]
    if not left and group != DEFAULT_GROUP:
        return False
    gone = delete(GRANTS).where(GRANTS.c.collection == collection, GRANTS.c.group_name == group)
    return connection.execute(gone).rowcount > 0
