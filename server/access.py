"""Access control and audit: principals, the role an action needs, the rows one sees, and entries about what was done.

A principal is a person who signed in, a program with a key, or whoever sits at this machine; `server.api.security`
finds out which. The service asks here before it does anything (`server.chat.base`), and the store gives a principal
what it may see (`server.store.schema.visible`). Nothing else compares roles, groups or owners.

Audit entries say who did what, when, from where, and with what outcome. Plugins keep them; without one they are
dropped. `note` is for what happens often, or was refused: it is written behind, in the order it came, and nobody waits
for it; closing the database writes the rest. An act of administration is written before it is answered, or in the
transaction of the act itself, with `entry` and `account`: an act that cannot be accounted for fails. No text of a
person or a document is part of an entry unless `Settings.keeps_questions`.
"""

from __future__ import annotations

import getpass
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict, Unpack, cast, get_args

from server.plugins import parts

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from server.store import Database


Role: TypeAlias = Literal["visitor", "reader", "agent", "operator"]
"""visitor: asks from a web site, whose page shows the key. reader: asks. agent: also reviews, rates, sees traces.
operator: also manages documents, sources, runs."""

ROLES: tuple[Role, ...] = get_args(Role)
"""From the least to the most."""

DEFAULT_GROUP = "default"
"""What collections belong to that were granted to nobody, and principals of which no group was said."""

EVERY_GROUP = "*"
"""Whoever is in it is in every group, and may manage the server as a whole."""


@dataclass(frozen=True, slots=True)
class Principal:
    """An actor: `id` is unique (`local`, `key:…`, `oidc:…`, `proxy:…`), `name` is for people.

    `origin` is from where, this time: an address, or a terminal.
    """

    id: str
    name: str
    role: Role
    groups: frozenset[str]
    origin: str = field(default="", compare=False)

    def for_visitor(self, pseudonym: str) -> Principal:
        """Return who acts for a visitor with this key: a principal of its own, with the key's rights and limits."""
        return replace(self, id=f"{self.id}/{pseudonym}")

    def has(self, role: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)

    @property
    def account(self) -> str:
        """The id that limits count: the key's, also for a visitor of a web site who asks with it."""
        return self.id.partition("/")[0] if self.id.startswith("key:") else self.id

    @property
    def everywhere(self) -> bool:
        return EVERY_GROUP in self.groups

    def in_group(self, group: str) -> bool:
        return self.everywhere or group in self.groups

    def dump(self) -> str:
        """As JSON, for `load`."""
        return json.dumps({"id": self.id, "name": self.name, "role": self.role, "groups": sorted(self.groups)})

    @classmethod
    def load(cls, text: str) -> Principal:
        """Read the text written by `dump`."""
        values = json.loads(text)
        return cls(values["id"], values["name"], cast("Role", values["role"]), frozenset(values["groups"]))


LOCAL = Principal("local", "this machine", "operator", frozenset({EVERY_GROUP}))
"""Who acts where no key is needed, and in terminal commands."""

DIAGNOSIS = replace(LOCAL, id="local:diagnosis", name="anaphora diagnose")
"""Ownership turns are asked for a diagnosis, and so are nobody's questions."""

NOBODY = Principal("nobody", "nobody", "reader", frozenset())
"""Who acts where a key is needed and none was given: nothing is granted to it."""


class SignInFailed(Exception):
    """Somebody does not come in; the message says why to that person. `status` is HTTP's."""

    def __init__(self, message: str, status: int = 401) -> None:
        super().__init__(message)
        self.status = status


Action: TypeAlias = Literal[
    "ask", "read", "change", "change_any", "rate", "review", "documents", "jobs",
    "server", "ready",
]  # fmt: skip

NEEDS: Mapping[Action, Role] = {
    "ready": "visitor",
    # Questions and searches, over collections that are granted.
    "ask": "visitor",
    # Collections with their documents, and the rows one sees.
    "read": "reader",
    # One's own conversations; those of others are changed by operators.
    "change": "reader",
    "change_any": "operator",
    "rate": "agent",
    # Traces, what others thought of answers, and saying what is right.
    "review": "agent",
    "documents": "operator",
    "jobs": "operator",
    # What belongs to the server and not to one group: its numbers, its state, the files of its machine.
    "server": "operator",
}
"""The least role for each action."""

_WHOLE: frozenset[Action] = frozenset({"server"})
"""Actions that also need every group."""


def allows(principal: Principal, action: Action) -> bool:
    """Whether a principal may do this at all; to what, its groups say."""
    return principal.has(NEEDS[action]) and (principal.everywhere or action not in _WHOLE)


def may_change(principal: Principal, owner: str) -> bool:
    """Whether a principal may change something of `owner` that it sees."""
    return owner == principal.id or allows(principal, "change_any")


def group_of(principal: Principal, grants: Iterable[str]) -> str | None:
    """The group by which a principal reaches a collection that was granted to these; None where it does not."""
    granted = sorted(grants) or [DEFAULT_GROUP]
    return next((group for group in granted if principal.in_group(group)), None)


def own_group(principal: Principal) -> str:
    """The group that what a principal makes anew belongs to."""
    return DEFAULT_GROUP if principal.everywhere else min(principal.groups, default=DEFAULT_GROUP)


@dataclass(frozen=True, slots=True)
class Ownership:
    """Ownership of a row: a principal's id, and the group it belongs to."""

    owner: str
    group: str


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


def at_terminal() -> Principal:
    """Return this machine's own principal, from the account the command runs under."""
    try:
        account_name = getpass.getuser()
    except (OSError, KeyError):  # as in a container whose user id has no name
        account_name = "unknown"
    return replace(LOCAL, origin=f"terminal of {account_name}")
