"""What was made of evidence on demand (quotes made readable, why a source is cited), so that it is not made twice.

A row is found by its key alone, which whoever keeps it makes of everything that it depended on.
"""

from __future__ import annotations

import sqlite3
import time

KEPT = 5_000
"""Rows kept at most; the oldest go."""


def find(connection: sqlite3.Connection, key: str) -> str | None:
    """What was kept under a key, as JSON."""
    row = connection.execute("SELECT made FROM standalone WHERE key = ?", (key,)).fetchone()
    return row["made"] if row else None


def keep(
    connection: sqlite3.Connection, key: str, collection: str, version: str, document_id: str, owner: str, made: str
) -> None:
    """Keep what was made; what was made of other versions of the collection goes."""
    connection.execute("DELETE FROM standalone WHERE collection = ? AND version <> ?", (collection, version))
    connection.execute(
        "INSERT OR REPLACE INTO standalone (key, collection, version, document_id, owner, created, made) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (key, collection, version, document_id, owner, time.time(), made),
    )
    connection.execute(
        "DELETE FROM standalone WHERE key IN (SELECT key FROM standalone ORDER BY created DESC LIMIT -1 OFFSET ?)",
        (KEPT,),
    )


def forget_collection(connection: sqlite3.Connection, collection: str) -> None:
    """Forget everything that was made of a collection."""
    connection.execute("DELETE FROM standalone WHERE collection = ?", (collection,))
