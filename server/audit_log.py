"""The audit log: who did what, when, from where, and with what end.

`note` is for what happens often, or was refused: it is written behind, in the order it came, and nobody waits for it;
closing the database writes what is left. An act of administration is written before it is answered, or in the
transaction of the act itself, with `entry` and `server.store.audit.append`: what is not accounted for is not
answered as done. No text of a person or a document is kept unless the operator wants it (`audit.content`).
"""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypedDict, Unpack

from server.access.principals import LOCAL, Principal
from server.store import Database, audit
from server.store.audit import AuditEntry

MAX_CHARS = 500
"""Longer names and texts are cut: they may come from anybody."""


class Circumstances(TypedDict, total=False):
    """Further details of an act; `detail` holds names and numbers, and no people's words."""

    collection: str
    group: str
    outcome: str
    detail: Mapping[str, object]


def entry(who: Principal, action: str, about: str = "", **more: Unpack[Circumstances]) -> AuditEntry:
    """A row to be; `about` is the id of what was acted on."""
    return AuditEntry(
        principal=who.id,
        action=action,
        about=about[:MAX_CHARS],
        collection=more.get("collection", "")[:MAX_CHARS],
        group=more.get("group", ""),
        origin=who.origin,
        outcome=more.get("outcome", "done"),
        detail={
            name: value[:MAX_CHARS] if isinstance(value, str) else value
            for name, value in more.get("detail", {}).items()
        },
    )


def note(database: Database, who: Principal, action: str, about: str = "", **more: Unpack[Circumstances]) -> None:
    """Write a row soon; where that fails, the server's log says so. May be called from any thread."""
    record = entry(who, action, about, **more)
    database.write_later(lambda connection: audit.append(connection, record))


def write_down(place: Path | str, action: str, about: str = "", **more: Unpack[Circumstances]) -> None:
    """Record an act of a command that does not have the database (a path or a URL) open. Raises StoreError."""
    database = Database(place)
    try:
        record = entry(at_terminal(), action, about, **more)
        database.write_blocking(audit.append, record)
    finally:
        database.close()


def at_terminal() -> Principal:
    """Return this machine's own principal, from the account the command runs under."""
    try:
        account = getpass.getuser()
    except (OSError, KeyError):  # as in a container whose user id has no name
        account = "unknown"
    return replace(LOCAL, origin=f"terminal of {account}")
