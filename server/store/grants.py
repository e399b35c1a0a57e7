"""Which groups may use which collection. One that was granted to nobody belongs to the group `default`."""

from __future__ import annotations

import sqlite3
import time

from server.access import DEFAULT_GROUP


def of(connection: sqlite3.Connection, collection: str) -> list[str]:
    """The groups a collection was granted to, by name; none where it belongs to `default`."""
    rows = connection.execute("SELECT group_name FROM grants WHERE collection = ? ORDER BY 1", (collection,))
    return [row["group_name"] for row in rows]


def everything(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """The groups of every collection that was granted to any."""
    granted = dict[str, list[str]]()
    for row in connection.execute("SELECT collection, group_name FROM grants ORDER BY 1, 2"):
        granted.setdefault(row["collection"], []).append(row["group_name"])
    return granted


def add(connection: sqlite3.Connection, collection: str, group: str) -> None:
    """Grant a collection to a group. One that exists and was granted to nobody stays with `default` only if so said."""
    connection.execute(
        "INSERT OR IGNORE INTO grants (collection, group_name, created) VALUES (?, ?, ?)",
        (collection, group, time.time()),
    )


def remove(connection: sqlite3.Connection, collection: str, group: str) -> bool:
    """Take a grant back; False where there is none, also of the last one: that would open it to `default`."""
    left = [name for name in of(connection, collection) if name != group]
    if not left and group != DEFAULT_GROUP:
        return False
    return (
        connection.execute("DELETE FROM grants WHERE collection = ? AND group_name = ?", (collection, group)).rowcount
        > 0
    )
