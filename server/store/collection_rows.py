"""Rows about collections: their groups, uploads, the paths they were indexed from, and cached evidence.

A collection that was granted to nobody belongs to the group `default`. A pushed document is named by its source and
key, with a slash between, which no name of a file has.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from sqlalchemy import Connection, and_, delete, func, not_, select

from server.access import DEFAULT_GROUP, Ownership
from server.store.dialects import put
from server.store.schema import GRANTS, SOURCES, STANDALONE, UPLOADS
from text.files import path_text

CACHED = 5_000
"""Rows kept at most; the oldest go."""


def find_cached(connection: Connection, key: str) -> str | None:
    """Return the value stored under a key, as JSON."""
    stored: str | None = connection.scalar(select(STANDALONE.c.made).where(STANDALONE.c.key == key))
    return stored


def cache(
    connection: Connection, key: str, collection: str, version: str, document_id: str, owner: str, content: str
) -> None:
    """Keep what was made; what was made of other versions of the collection goes."""
    connection.execute(delete(STANDALONE).where(STANDALONE.c.collection == collection, STANDALONE.c.version != version))
    row = {"key": key, "collection": collection, "version": version, "document_id": document_id, "owner": owner}
    put(connection, STANDALONE, {**row, "created": time.time(), "made": content})
    old = select(STANDALONE.c.key).order_by(STANDALONE.c.created.desc()).offset(CACHED)
    connection.execute(delete(STANDALONE).where(STANDALONE.c.key.in_(old)))


def forget_cached(connection: Connection, collection: str) -> None:
    """Forget everything that was made of a collection."""
    connection.execute(delete(STANDALONE).where(STANDALONE.c.collection == collection))


def groups_of(connection: Connection, collection: str) -> list[str]:
    """The groups a collection was granted to, by name; none where it belongs to `default`."""
    granted = select(GRANTS.c.group_name).where(GRANTS.c.collection == collection).order_by(GRANTS.c.group_name)
    return list(connection.scalars(granted))


def all_grants(connection: Connection) -> dict[str, list[str]]:
    """The groups of every collection that was granted to any."""
    granted, groups = GRANTS.c["collection", "group_name"], dict[str, list[str]]()
    for collection, group in connection.execute(select(*granted).order_by(*granted)):
        groups.setdefault(collection, []).append(group)
    return groups


def grant(connection: Connection, collection: str, group: str) -> None:
    """Grant a collection to a group. One that exists and was granted to nobody stays with `default` only if so said."""
    put(connection, GRANTS, {"collection": collection, "group_name": group, "created": time.time()}, keep=True)


def revoke_grant(connection: Connection, collection: str, group: str) -> bool:
    """Take a grant back; False where there is none, also of the last one: that would open it to `default`."""
    left = [name for name in groups_of(connection, collection) if name != group]
    if not left and group != DEFAULT_GROUP:
        return False
    gone = delete(GRANTS).where(GRANTS.c.collection == collection, GRANTS.c.group_name == group)
    return connection.execute(gone).rowcount > 0


def remember_upload(connection: Connection, collection: str, name: str, size: int, ownership: Ownership) -> None:
    """Remember whose an upload or a pushed document is, of so many bytes, in place of one of the same name."""
    row = {"collection": collection, "name": name, "owner": ownership.owner, "group_name": ownership.group}
    put(connection, UPLOADS, {**row, "bytes": size, "created": time.time()})


def uploaded_bytes(connection: Connection, owner: str, but: tuple[str, str]) -> int:
    """Bytes of an owner's uploads, without the one of this collection and name."""
    that = and_(UPLOADS.c.collection == but[0], UPLOADS.c.name == but[1])
    return int(connection.scalar(select(func.sum(UPLOADS.c.bytes)).where(UPLOADS.c.owner == owner, not_(that))) or 0)


def forget_uploads(connection: Connection, collection: str, name: str | None = None) -> None:
    """Forget an upload, or every one of a collection."""
    gone = delete(UPLOADS).where(UPLOADS.c.collection == collection)
    connection.execute(gone if name is None else gone.where(UPLOADS.c.name == name))


def forget_pushed(connection: Connection, collection: str, source: str) -> None:
    """Forget what was pushed to a source."""
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
    """Forget where a collection came from."""
    connection.execute(delete(SOURCES).where(SOURCES.c.collection == collection))
