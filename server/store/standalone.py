"""Cache of evidence made on demand (decontextualized quotes, reasons of citations).

A row is found by its key alone, which whoever keeps it makes of everything that it depended on.
"""

from __future__ import annotations

import time

from sqlalchemy import Connection, delete, select

from server.store.dialects import put
from server.store.schema import STANDALONE as MADE

KEPT = 5_000
"""Rows kept at most; the oldest go."""


def find(connection: Connection, key: str) -> str | None:
    """Return the value stored under a key, as JSON."""
    stored: str | None = connection.scalar(select(MADE.c.made).where(MADE.c.key == key))
    return stored


def keep(
    connection: Connection, key: str, collection: str, version: str, document_id: str, owner: str, content: str
) -> None:
    """Keep what was made; what was made of other versions of the collection goes."""
    connection.execute(delete(MADE).where(MADE.c.collection == collection, MADE.c.version != version))
    row = {"key": key, "collection": collection, "version": version, "document_id": document_id, "owner": owner}
    put(connection, MADE, {**row, "created": time.time(), "made": content})
    old = select(MADE.c.key).order_by(MADE.c.created.desc()).offset(KEPT)
    connection.execute(delete(MADE).where(MADE.c.key.in_(old)))


def forget_collection(connection: Connection, collection: str) -> None:
    """Forget everything that was made of a collection."""
    connection.execute(delete(MADE).where(MADE.c.collection == collection))
