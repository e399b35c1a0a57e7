"""Sessions of the page: begun with a key, ended by logging out, by time, or with their key.

Only a hash of a session's secret is kept, so that who reads the database has no session.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
import time


def begin(connection: sqlite3.Connection, key_id: str, seconds: float) -> str:
    """A session of a key for so long: its secret, which cannot be had again. Expired ones are forgotten."""
    secret, now = secrets.token_urlsafe(32), time.time()
    connection.execute("DELETE FROM sessions WHERE expires < ?", (now,))
    connection.execute(
        "INSERT INTO sessions (hash, key_id, expires) VALUES (?, ?, ?)", (_hash(secret), key_id, now + seconds)
    )
    return secret


def is_valid(connection: sqlite3.Connection, secret: str) -> bool:
    """Whether this is the secret of a session that has not ended, whose key was not revoked."""
    found = connection.execute(
        "SELECT 1 FROM sessions JOIN keys ON keys.id = key_id "
        "WHERE sessions.hash = ? AND expires > ? AND revoked IS NULL",
        (_hash(secret), time.time()),
    )
    return found.fetchone() is not None


def end(connection: sqlite3.Connection, secret: str) -> None:
    """Make a session useless from now on."""
    connection.execute("DELETE FROM sessions WHERE hash = ?", (_hash(secret),))


def _hash(secret: str) -> str:
    # Of 256 random bits, as of a key: there is nothing to guess.
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
