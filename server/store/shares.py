"""Links by which a conversation may be read without a key, until they expire or are taken back.

Only a hash of a link's secret is kept. A reader of the link sees the part that its author may read at that moment.
"""

from __future__ import annotations

import secrets
import time

from sqlalchemy import Connection, delete, insert, select

from server.access import LOCAL, Principal
from server.store import keys
from server.store.records import Share
from server.store.schema import SHARES


def give(connection: Connection, conversation_id: str, principal: Principal, seconds: float) -> tuple[Share, str]:
    """A link to a conversation for so long, and its secret, which cannot be had again. Expired ones are forgotten."""
    now, secret = time.time(), secrets.token_urlsafe(32)
    connection.execute(delete(SHARES).where(SHARES.c.expires < now))
    share = Share(id=secrets.token_hex(8), created=now, expires=now + seconds)
    row = {"hash": keys.secret_hash(secret), "conversation_id": conversation_id, "principal": principal.dump()}
    connection.execute(insert(SHARES), {**share.model_dump(), **row})
    return share, secret


def listing(connection: Connection, conversation_id: str) -> list[Share]:
    """The links to a conversation that have not expired, oldest first."""
    query = select(*SHARES.c["id", "created", "expires"]).where(SHARES.c.conversation_id == conversation_id)
    rows = connection.execute(query.where(SHARES.c.expires > time.time()).order_by(SHARES.c.created))
    return [Share(**row) for row in rows.mappings()]


def take_back(connection: Connection, conversation_id: str, share_id: str) -> bool:
    """Make a link useless; False where there is none."""
    gone = delete(SHARES).where(SHARES.c.conversation_id == conversation_id, SHARES.c.id == share_id)
    return connection.execute(gone).rowcount > 0


def find(connection: Connection, secret: str) -> tuple[str, Principal] | None:
    """The conversation of a link, and who gave it, as that principal is now; None where the link or the key of who
    gave it has ended."""
    query = select(*SHARES.c["conversation_id", "principal"]).where(SHARES.c.hash == keys.secret_hash(secret))
    row = connection.execute(query.where(SHARES.c.expires > time.time())).first()
    if row is None:
        return None
    giver = Principal.load(row.principal)
    if giver.id.startswith("key:"):
        key = keys.find_active(connection, giver.id.removeprefix("key:"))
        return (row.conversation_id, key.principal) if key else None
    # Whoever sat at this machine while nobody needed a key is not believed once one is needed.
    if giver.id == LOCAL.id and keys.required(connection):
        return None
    return row.conversation_id, giver
