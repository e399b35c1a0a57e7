"""Sessions of the page: begun by signing in, ended by logging out, by time, or with their key.

Only a hash of a session's secret is kept, so that who reads the database has no session.
"""

from __future__ import annotations

import secrets
import time

from sqlalchemy import Connection, delete, insert, select

from server.access.principals import Principal
from server.store import keys
from server.store.dialects import json_text
from server.store.schema import SESSIONS


def begin(
    connection: Connection,
    principal: Principal,
    seconds: float,
    key_id: str | None = None,
    id_token: str = "",
) -> str:
    """A session of a principal for so long: its secret, which cannot be had again. Expired ones are forgotten.

    `key_id` names the key it is begun with, and ends with; `id_token` is what a provider said when it began.
    """
    secret, now = secrets.token_urlsafe(32), time.time()
    connection.execute(delete(SESSIONS).where(SESSIONS.c.expires < now))
    row = {"hash": keys.secret_hash(secret), "principal": principal.dump(), "key_id": key_id, "id_token": id_token}
    connection.execute(insert(SESSIONS), {**row, "expires": now + seconds})
    return secret


def find(connection: Connection, secret: str) -> Principal | None:
    """Return the owner of the session with this secret; None where it has ended, or its key was revoked or has
    expired."""
    begun = select(*SESSIONS.c["principal", "key_id"]).where(SESSIONS.c.hash == keys.secret_hash(secret))
    row = connection.execute(begun.where(SESSIONS.c.expires > time.time())).first()
    if row is None:
        return None
    if row.key_id is None:
        return Principal.load(row.principal)
    key = keys.find_active(connection, row.key_id)
    return key.principal if key else None


def end(connection: Connection, secret: str) -> str:
    """Make a session useless from now on. Return the provider's values from its start, empty without a provider."""
    id_token = connection.scalar(select(SESSIONS.c.id_token).where(SESSIONS.c.hash == keys.secret_hash(secret)))
    connection.execute(delete(SESSIONS).where(SESSIONS.c.hash == keys.secret_hash(secret)))
    return id_token or ""


def listing(connection: Connection) -> list[tuple[Principal, float]]:
    """List the sessions that have not ended, with their latest end; the last of them first."""
    begun = select(*SESSIONS.c["principal", "expires"]).where(SESSIONS.c.expires > time.time())
    rows = connection.execute(begun.order_by(SESSIONS.c.expires.desc(), SESSIONS.c.hash))
    return [(Principal.load(principal), expires) for principal, expires in rows]


def end_all(connection: Connection, principal_id: str) -> int:
    """End every session of a principal; how many there were."""
    return connection.execute(delete(SESSIONS).where(json_text(SESSIONS.c.principal, "id") == principal_id)).rowcount
