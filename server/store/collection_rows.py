"""Rows about collections: their groups, uploads, and the paths they were indexed from.

A collection that was granted to nobody belongs to the group `default`. A pushed document is named by its source and
key, with a slash between, which no name of an upload has: what came in an archive is named by its path with colons.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from sqlalchemy import ColumnElement, Connection, and_, delete, func, not_, or_, select

from server.access import Ownership
from server.store.schema import SOURCES, UPLOADS, erased_tables, put
from text.files import path_text


def forget(connection: Connection, collection: str) -> None:
    """Forget the sources and uploads of a collection, and what plugins keep about it."""
    for table in (SOURCES, UPLOADS, *erased_tables()):
        connection.execute(delete(table).where(table.c.collection == collection))


def remember_uploads(
    connection: Connection, collection: str, name: str, sizes: Mapping[str, int], ownership: Ownership
) -> None:
    """Remember whose an upload is, or each file of an archive, with its bytes, in the place of what had that name."""
    forget_uploads(connection, collection, name)
    now = time.time()
    row = {"collection": collection, "owner": ownership.owner, "group_name": ownership.group, "created": now}
    put(connection, UPLOADS, *({**row, "name": file, "bytes": size} for file, size in sizes.items()))


def uploaded_bytes(connection: Connection, owner: str, but: tuple[str, str]) -> int:
    """Bytes of an owner's uploads, without the one of this collection and name."""
    others = UPLOADS.c.owner == owner, not_(_named(*but))
    return int(connection.scalar(select(func.sum(UPLOADS.c.bytes)).where(*others)) or 0)


def forget_uploads(connection: Connection, collection: str, name: str) -> None:
    """Forget an upload, or those of an archive of that name."""
    connection.execute(delete(UPLOADS).where(_named(collection, name)))


def _named(collection: str, name: str) -> ColumnElement[bool]:
    """The rows of an upload: its own, or those of the files that came in an archive of that name."""
    # A pushed document's key may hold colons of its own.
    within = not_(UPLOADS.c.name.contains("/")) & UPLOADS.c.name.startswith(f"{name}:", autoescape=True)
    return and_(UPLOADS.c.collection == collection, or_(UPLOADS.c.name == name, within))


def forget_pushed(connection: Connection, collection: str, source: str) -> None:
    its = UPLOADS.c.collection == collection, UPLOADS.c.name.startswith(f"{source}/", autoescape=True)
    connection.execute(delete(UPLOADS).where(*its))


def remember_sources(connection: Connection, collection: str, paths: Iterable[Path]) -> None:
    """Remember the absolute paths that a collection was indexed from, but for those that are no UTF-8: none is read."""
    now = time.time()
    rows = [
        {"collection": collection, "path": str(path), "added": now} for path in paths if path_text(path) == str(path)
    ]
    if rows:
        put(connection, SOURCES, *rows, keep=True)


def remembered_sources(connection: Connection, collection: str) -> list[Path]:
    """The paths a collection was indexed from, in the order they were added."""
    rows = select(SOURCES.c.path).where(SOURCES.c.collection == collection).order_by(SOURCES.c.added, SOURCES.c.path)
    return [Path(path) for path in connection.scalars(rows)]


def forget_sources(connection: Connection, collection: str) -> None:
    connection.execute(delete(SOURCES).where(SOURCES.c.collection == collection))
