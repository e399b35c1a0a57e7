"""Who handed in which file. The files themselves are `server.chat.uploads`' business."""

from __future__ import annotations

import sqlite3
import time

from server.access import Whose


def remember(connection: sqlite3.Connection, collection: str, name: str, size: int, whose: Whose) -> None:
    """Remember whose an upload is, of so many bytes, in place of one of the same name."""
    connection.execute(
        "INSERT OR REPLACE INTO uploads (collection, name, owner, group_name, bytes, created) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (collection, name, whose.owner, whose.group, size, time.time()),
    )


def total(connection: sqlite3.Connection, owner: str, but: tuple[str, str]) -> int:
    """Bytes of an owner's uploads, without the one of this collection and name."""
    found = connection.execute(
        "SELECT coalesce(sum(bytes), 0) FROM uploads WHERE owner = ? AND NOT (collection = ? AND name = ?)",
        (owner, *but),
    )
    count: int = found.fetchone()[0]
    return count


def forget(connection: sqlite3.Connection, collection: str, name: str | None = None) -> None:
    """Forget an upload, or every one of a collection."""
    connection.execute("DELETE FROM uploads WHERE collection = ? AND (? IS NULL OR name = ?)", (collection, name, name))
