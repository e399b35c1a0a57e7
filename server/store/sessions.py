"""Sessions of the page: begun by signing in, ended by logging out, by time, or with their key.

Only a hash of a session's secret is kept, so that who reads the database has no session.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
import time

from server.access.principals import Principal
from server.store import keys


def begin(
    connection: sqlite3.Connection,
    principal: Principal,
    seconds: float,
    key_id: str | None = None,
    id_token: str = "",
) -> str:
    """A session of a principal for so long: its secret, which cannot be had again. Expired ones are forgotten.

    `key_id` names the key it is begun with, and ends with; `id_token` is what a provider said when it began.
    """
    secret, now = secrets.token_urlsafe(32), time.time()
    connection.execute("DELETE FROM sessions WHERE expires < ?", (now,))
    connection.execute(
        "INSERT INTO sessions (hash, principal, key_id, id_token, expires) VALUES (?, ?, ?, ?, ?)",
        (_hash(secret), principal.dump(), key_id, id_token, now + seconds),
    )
    return secret


def find(connection: sqlite3.Connection, secret: str) -> Principal | None:
    """Whose session this secret belongs to; None where it has ended, or its key was revoked or has expired."""
    row = connection.execute(
        "SELECT principal, key_id FROM sessions WHERE hash = ? AND expires > ?", (_hash(secret), time.time())
    ).fetchone()
    if row is None:
        return None
    if row["key_id"] is None:
        return Principal.load(row["principal"])
    key = keys.find_active(connection, row["key_id"])
    return key.principal if key else None


def end(connection: sqlite3.Connection, secret: str) -> str:
    """Make a session useless from now on. What a provider said when it began, empty where it was none."""
    row = connection.execute("SELECT id_token FROM sessions WHERE hash = ?", (_hash(secret),)).fetchone()
    connection.execute("DELETE FROM sessions WHERE hash = ?", (_hash(secret),))
    return str(row["id_token"]) if row else ""


def listing(connection: sqlite3.Connection) -> list[tuple[Principal, float]]:
    """Whose sessions have not ended, and when each will at the latest; the last of them first."""
    rows = connection.execute(
        "SELECT principal, expires FROM sessions WHERE expires > ? ORDER BY expires DESC, hash", (time.time(),)
    )
    return [(Principal.load(row["principal"]), row["expires"]) for row in rows]


def end_all(connection: sqlite3.Connection, principal_id: str) -> int:
    """End every session of a principal; how many there were."""
    return connection.execute(
        "DELETE FROM sessions WHERE json_extract(principal, '$.id') = ?", (principal_id,)
    ).rowcount


def _hash(secret: str) -> str:
    # Of 256 random bits, as of a key: there is nothing to guess.
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
