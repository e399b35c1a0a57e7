"""Audit events: who did what, when, from where, and with what outcome. Plugins keep them; without one they are dropped.

`note` is for what happens often, or was refused: it is written behind, in the order it came, and nobody waits for it;
closing the database writes the rest. An act of administration is written before it is answered, or in the transaction
of the act itself, with `entry` and `account`: an act that cannot be accounted for fails. No text of a person or a
document is part of an entry unless `Settings.keeps_questions`.
"""

from __future__ import annotations

import getpass
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from server.access import LOCAL, Principal
from server.plugins import parts
from server.store import Database

if TYPE_CHECKING:
    from sqlalchemy import Connection

MAX_CHARS = 500
"""Longer names and texts are cut: they may come from anybody."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An act: `principal` and `about` are ids, `detail` can be written as JSON, `at` is in seconds since the epoch."""

    principal: str
    action: str
    about: str = ""
    collection: str = ""
    group: str = ""
    origin: str = ""
    outcome: str = "done"
    detail: dict[str, object] = field(default_factory=dict)
    at: float = field(default_factory=time.time)


class Circumstances(TypedDict, total=False):
    """Further details of an act; `detail` holds names and numbers, and no people's words."""

    collection: str
    group: str
    outcome: str
    detail: Mapping[str, object]


def entry(who: Principal, action: str, about: str = "", **more: Unpack[Circumstances]) -> AuditEntry:
    """Build an entry; `about` is the id of what was acted on."""
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


def account(connection: Connection, *entries: AuditEntry) -> None:
    """Keep entries in every audit log, within the transaction of `connection`."""
    for append in parts("audit_logs"):
        append(connection, *entries)


def note(database: Database, who: Principal, action: str, about: str = "", **more: Unpack[Circumstances]) -> None:
    """Keep an entry soon; where that fails, the server's log says so. May be called from any thread."""
    record = entry(who, action, about, **more)
    if parts("audit_logs"):
        database.write_later(lambda connection: account(connection, record))


def write_down(place: Path | str, action: str, **more: Unpack[Circumstances]) -> None:
    """Record an act of a command that does not have the database (a path or a URL) open. Raises StoreError."""
    database = Database(place)
    try:
        database.write_blocking(account, entry(at_terminal(), action, **more))
    finally:
        database.close()


def at_terminal() -> Principal:
    """Return this machine's own principal, from the account the command runs under."""
    try:
        account_name = getpass.getuser()
    except (OSError, KeyError):  # as in a container whose user id has no name
        account_name = "unknown"
    return replace(LOCAL, origin=f"terminal of {account_name}")
