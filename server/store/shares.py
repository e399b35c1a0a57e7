"""Links by which a conversation may be read without a key, until they expire or are taken back.

Only a hash of a link's secret is kept. Who opens one reads what the person who gave it may read at that moment.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
import time

from server.access import LOCAL, Principal
from server.store import keys
from server.store.records import Share


def give(
    connection: sqlite3.Connection, conversation_id: str, principal: Principal, seconds: float
) -> tuple[Share, str]:
    """A link to a conversation for so long, and its secret, which cannot be had again. Expired ones are forgotten."""
    now, secret = time.time(), secrets.token_urlsafe(32)
    connection.execute("DELETE FROM shares WHERE expires < ?", (now,))
    made = Share(id=secrets.token_hex(8), created=now, expires=now + seconds)
    connection.execute(
        "INSERT INTO shares (id, hash, conversation_id, principal, created, expires) VALUES (?, ?, ?, ?, ?, ?)",
        (made.id, _hash(secret), conversation_id, principal.dump(), made.created, made.expires),
    )
    return made, secret


def listing(connection: sqlite3.Connection, conversation_id: str) -> list[Share]:
    """The links to a conversation that have not expired, oldest first."""
    rows = connection.execute(
        "SELECT id, created, expires FROM shares WHERE conversation_id = ? AND expires > ? ORDER BY created",
        (conversation_id, time.time()),
    )
    return [Share(**row) for row in rows]


def take_back(connection: sqlite3.Connection, conversation_id: str, share_id: str) -> bool:
    """Make a link useless; False where there is none."""
    gone = connection.execute("DELETE FROM shares WHERE conversation_id = ? AND id = ?", (conversation_id, share_id))
    return gone.rowcount > 0


def find(connection: sqlite3.Connection, secret: str) -> tuple[str, Principal] | None:
    """The conversation of a link, and who gave it, as that principal is now; None where the link or the key of who
    gave it has ended."""
    row = connection.execute(
        "SELECT conversation_id, principal FROM shares WHERE hash = ? AND expires > ?", (_hash(secret), time.time())
    ).fetchone()
    if row is None:
        return None
    giver = Principal.load(row["principal"])
    if giver.id.startswith("key:"):
        key = keys.find_active(connection, giver.id.removeprefix("key:"))
        return (row["conversation_id"], key.principal) if key else None
    # Whoever sat at this machine while nobody needed a key is not believed once one is needed.
    if giver.id == LOCAL.id and keys.required(connection):
        return None
    return row["conversation_id"], giver


def _hash(secret: str) -> str:
    # Of 256 random bits, as of a session: there is nothing to guess.
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
