"""Owners of uploaded files and pushed documents. The files themselves are `server.chat.collections`' business.

A pushed document is named by its source and key, with a slash between, which no name of a file has.
"""

from __future__ import annotations

import time

from sqlalchemy import Connection, and_, delete, func, not_, select

from server.access import Ownership
from server.store.dialects import put
from server.store.schema import UPLOADS


def remember(connection: Connection, collection: str, name: str, size: int, ownership: Ownership) -> None:
    """Remember whose an upload or a pushed document is, of so many bytes, in place of one of the same name."""
    row = {"collection": collection, "name": name, "owner": ownership.owner, "group_name": ownership.group}
    put(connection, UPLOADS, {**row, "bytes": size, "created": time.time()})


def total(connection: Connection, owner: str, but: tuple[str, str]) -> int:
    """Bytes of an owner's uploads, without the one of this collection and name."""
    that = and_(UPLOADS.c.collection == but[0], UPLOADS.c.name == but[1])
    return int(connection.scalar(select(func.sum(UPLOADS.c.bytes)).where(UPLOADS.c.owner == owner, not_(that))) or 0)


def forget(connection: Connection, collection: str, name: str | None = None) -> None:
    """Forget an upload, or every one of a collection."""
    gone = delete(UPLOADS).where(UPLOADS.c.collection == collection)
    connection.execute(gone if name is None else gone.where(UPLOADS.c.name == name))


def forget_source(connection: Connection, collection: str, source: str) -> None:
    """Forget what was pushed to a source."""
    its = UPLOADS.c.collection == collection, UPLOADS.c.name.startswith(f"{source}/", autoescape=True)
    connection.execute(delete(UPLOADS).where(*its))
