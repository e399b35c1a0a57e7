"""The one place that decides: which role an action needs, which rows a principal sees, and by which group.

The service asks before it does anything (`server.chat.authorization`); the store gives a principal what it
may see (`server.store.schema.visible`). Nothing else compares roles, groups or owners.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from server.access.principals import DEFAULT_GROUP, Principal, Role

Action: TypeAlias = Literal[
    "ask",
    "read",
    "change",
    "change_any",
    "rate",
    "review",
    "documents",
    "jobs",
    "keys",
    "grants",
    "audit",
    "server",
    "ready",
]

NEEDS: Mapping[Action, Role] = {
    "ready": "reader",
    # Questions and searches, over collections that are granted.
    "ask": "reader",
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
    "keys": "operator",
    "grants": "operator",
    # What the log holds of one's groups.
    "audit": "operator",
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


def may_give(principal: Principal, role: Role, groups: Iterable[str]) -> bool:
    """Whether a principal may let somebody else have this role in these groups: nobody gives more than there is."""
    return allows(principal, "keys") and principal.has(role) and all(principal.in_group(group) for group in groups)


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
