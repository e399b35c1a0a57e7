"""Credentials: API keys, sessions of the page, and links to conversations. Only hashes of their secrets are kept.

A secret is 256 random bits, so a plain SHA-256 protects it: there is nothing to guess that a slow password hash would
make slower, and a fast one keeps every request fast.
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

from server.access import EVERY_GROUP, LOCAL, Principal, Role
from server.store.records import Share
from server.store.schema import KEYS, SESSIONS, SHARES, json_text

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
        return Principal(f"key:{self.id}", self.name, self.role, self.groups)


def _active() -> ColumnElement[bool]:
    return and_(KEYS.c.revoked.is_(None), or_(KEYS.c.expires.is_(None), KEYS.c.expires > time.time()))


def create_key(
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


def list_keys(connection: Connection) -> list[ApiKey]:
    """Every key, revoked ones too, oldest first."""
    return [_key(row) for row in connection.execute(select(KEYS).order_by(KEYS.c.created, KEYS.c.id))]


def find_key(connection: Connection, key_id: str) -> ApiKey | None:
    """The key with this id, unless it was revoked or has expired."""
    row = connection.execute(select(KEYS).where(KEYS.c.id == key_id, _active())).first()
    return _key(row) if row else None


def any_key(connection: Connection) -> bool:
    """Whether there is a key that opens anything."""
    return connection.execute(select(KEYS.c.id).where(_active())).first() is not None


def key_required(connection: Connection) -> bool:
    """Whether requests need a key: from the first key on, also after the last was revoked, until `open_up`."""
    return connection.execute(select(KEYS.c.id)).first() is not None


def require_no_key(connection: Connection) -> bool:
    """Require no key any more, until the next is made: revoked ones are forgotten. False while one is active."""
    if any_key(connection):
        return False
    connection.execute(delete(KEYS))
    return True


def revoke_key(connection: Connection, key_id: str) -> bool:
    """Make a key useless from now on; False if there is no such key, or it is revoked already."""
    usable = update(KEYS).where(KEYS.c.id == key_id.strip(), KEYS.c.revoked.is_(None))
    return connection.execute(usable.values(revoked=time.time())).rowcount > 0


def check_key(connection: Connection, secret: str) -> ApiKey | None:
    """The active key that this is, or None. The hashes are compared in constant time."""
    if not secret.isascii():
        return None
    head, _, _ = secret.removeprefix(PREFIX).partition("_")
    row = connection.execute(select(KEYS).where(KEYS.c.id == head, _active())).first()
    expected = row.hash if row else secret_hash("")
    if not hmac.compare_digest(expected, secret_hash(secret)) or row is None:
        return None
    return _key(row)


def note_key_use(connection: Connection, key_id: str) -> None:
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


def begin_session(
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
    row = {"hash": secret_hash(secret), "principal": principal.dump(), "key_id": key_id, "id_token": id_token}
    connection.execute(insert(SESSIONS), {**row, "expires": now + seconds})
    return secret


def find_session(connection: Connection, secret: str) -> Principal | None:
    """Return the owner of the session with this secret; None where it has ended, or its key was revoked or has
    expired."""
    begun = select(*SESSIONS.c["principal", "key_id"]).where(SESSIONS.c.hash == secret_hash(secret))
    row = connection.execute(begun.where(SESSIONS.c.expires > time.time())).first()
    if row is None:
        return None
    if row.key_id is None:
        return Principal.load(row.principal)
    key = find_key(connection, row.key_id)
    return key.principal if key else None


def end_session(connection: Connection, secret: str) -> str:
    """Make a session useless from now on. Return the provider's values from its start, empty without a provider."""
    id_token = connection.scalar(select(SESSIONS.c.id_token).where(SESSIONS.c.hash == secret_hash(secret)))
    connection.execute(delete(SESSIONS).where(SESSIONS.c.hash == secret_hash(secret)))
    return id_token or ""


def list_sessions(connection: Connection) -> list[tuple[Principal, float]]:
    """List the sessions that have not ended, with their latest end; the last of them first."""
    begun = select(*SESSIONS.c["principal", "expires"]).where(SESSIONS.c.expires > time.time())
    rows = connection.execute(begun.order_by(SESSIONS.c.expires.desc(), SESSIONS.c.hash))
    return [(Principal.load(principal), expires) for principal, expires in rows]


def end_sessions(connection: Connection, principal_id: str) -> int:
    """End every session of a principal; how many there were."""
    return connection.execute(delete(SESSIONS).where(json_text(SESSIONS.c.principal, "id") == principal_id)).rowcount


def share(connection: Connection, conversation_id: str, principal: Principal, seconds: float) -> tuple[Share, str]:
    """A link to a conversation for so long, and its secret, which cannot be had again. Expired ones are forgotten."""
    now, secret = time.time(), secrets.token_urlsafe(32)
    connection.execute(delete(SHARES).where(SHARES.c.expires < now))
    new_share = Share(id=secrets.token_hex(8), created=now, expires=now + seconds)
    row = {"hash": secret_hash(secret), "conversation_id": conversation_id, "principal": principal.dump()}
    connection.execute(insert(SHARES), {**new_share.model_dump(), **row})
    return new_share, secret


def list_shares(connection: Connection, conversation_id: str) -> tuple[Share, ...]:
    """The links to a conversation that have not expired, oldest first."""
    query = select(*SHARES.c["id", "created", "expires"]).where(SHARES.c.conversation_id == conversation_id)
    rows = connection.execute(query.where(SHARES.c.expires > time.time()).order_by(SHARES.c.created))
    return tuple(Share(**row) for row in rows.mappings())


def unshare(connection: Connection, conversation_id: str, share_id: str) -> bool:
    """Make a link useless; False where there is none."""
    gone = delete(SHARES).where(SHARES.c.conversation_id == conversation_id, SHARES.c.id == share_id)
    return connection.execute(gone).rowcount > 0


def find_share(connection: Connection, secret: str) -> tuple[str, Principal] | None:
    """The conversation of a link, and who gave it, as that principal is now; None where the link or the key of who
    gave it has ended."""
    query = select(*SHARES.c["conversation_id", "principal"]).where(SHARES.c.hash == secret_hash(secret))
    row = connection.execute(query.where(SHARES.c.expires > time.time())).first()
    if row is None:
        return None
    giver = Principal.load(row.principal)
    if giver.id.startswith("key:"):
        key = find_key(connection, giver.id.removeprefix("key:"))
        return (row.conversation_id, key.principal) if key else None
    # Whoever sat at this machine while nobody needed a key is not believed once one is needed.
    if giver.id == LOCAL.id and key_required(connection):
        return None
    return row.conversation_id, giver
