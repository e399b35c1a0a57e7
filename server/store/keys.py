"""API keys: made, checked, listed, revoked; each has a role, groups and perhaps an end. Only a hash of it is kept.

A key is 256 random bits, so a plain SHA-256 protects it: there is nothing to guess that a slow
password hash would make slower, and a fast one keeps every request fast.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, func, insert, or_, select, update

from server.access.principals import EVERY_GROUP, Principal, Role
from server.store.schema import KEYS

PREFIX = "ana_"
ID_CHARS = 8

USED_SECONDS = 60.0
"""`used` is written at most this often, so that checking a key is a read."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it can be shown: never the key itself. `id` is its first characters after the prefix."""

    id: str
    name: str
    created: float
    used: float | None
    revoked: float | None
    role: Role = "operator"
    groups: frozenset[str] = frozenset({EVERY_GROUP})
    expires: float | None = None

    @property
    def principal(self) -> Principal:
        """The principal of this key."""
        return Principal(f"key:{self.id}", self.name, self.role, self.groups)


def _active() -> ColumnElement[bool]:
    return and_(KEYS.c.revoked.is_(None), or_(KEYS.c.expires.is_(None), KEYS.c.expires > time.time()))


def create(
    connection: Connection,
    name: str,
    role: Role = "operator",
    groups: frozenset[str] = frozenset({EVERY_GROUP}),
    expires: float | None = None,
) -> tuple[ApiKey, str]:
    """Make a key; the second value is the key itself, which cannot be had again."""
    key_id = secrets.token_hex(ID_CHARS // 2)
    secret = f"{PREFIX}{key_id}_{secrets.token_urlsafe(32)}"
    api_key = ApiKey(key_id, name, time.time(), None, None, role, groups, expires)
    row = {"id": key_id, "name": name, "hash": secret_hash(secret), "created": api_key.created, "role": role}
    connection.execute(insert(KEYS), {**row, "groups": json.dumps(sorted(groups)), "expires": expires})
    return api_key, secret


def listing(connection: Connection) -> list[ApiKey]:
    """Every key, revoked ones too, oldest first."""
    return [_key(row) for row in connection.execute(select(KEYS).order_by(KEYS.c.created, KEYS.c.id))]


def find_active(connection: Connection, key_id: str) -> ApiKey | None:
    """The key with this id, unless it was revoked or has expired."""
    row = connection.execute(select(KEYS).where(KEYS.c.id == key_id, _active())).first()
    return _key(row) if row else None


def any_active(connection: Connection) -> bool:
    """Whether there is a key that opens anything."""
    return connection.execute(select(KEYS.c.id).where(_active())).first() is not None


def required(connection: Connection) -> bool:
    """Whether requests need a key: from the first key on, also after the last was revoked, until `open_up`."""
    return connection.execute(select(KEYS.c.id)).first() is not None


def open_up(connection: Connection) -> bool:
    """Require no key any more, until the next is made: revoked ones are forgotten. False while one is active."""
    if any_active(connection):
        return False
    connection.execute(delete(KEYS))
    return True


def revoke(connection: Connection, key_id: str) -> bool:
    """Make a key useless from now on; False if there is no such key, or it is revoked already."""
    usable = update(KEYS).where(KEYS.c.id == key_id.strip(), KEYS.c.revoked.is_(None))
    return connection.execute(usable.values(revoked=time.time())).rowcount > 0


def check(connection: Connection, secret: str) -> ApiKey | None:
    """The active key that this is, or None. The hashes are compared in constant time."""
    if not secret.isascii():
        return None
    head, _, _ = secret.removeprefix(PREFIX).partition("_")
    row = connection.execute(select(KEYS).where(KEYS.c.id == head, _active())).first()
    expected = row.hash if row else secret_hash("")
    if not hmac.compare_digest(expected, secret_hash(secret)) or row is None:
        return None
    return _key(row)


def note_use(connection: Connection, key_id: str) -> None:
    """Remember that a key was used just now."""
    now = time.time()
    long_ago = func.coalesce(KEYS.c.used, 0) < now - USED_SECONDS
    connection.execute(update(KEYS).where(KEYS.c.id == key_id, long_ago).values(used=now))


def _key(row: Row[Any]) -> ApiKey:
    return ApiKey(
        row.id, row.name, row.created, row.used, row.revoked, row.role, frozenset(json.loads(row.groups)), row.expires
    )


def secret_hash(secret: str) -> str:
    """Hash the secret of a key, a session or a link; 256 random bits need no salt."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
