"""`Principal`: who acts. A person who signed in, a program with a key, or whoever sits at this machine."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, cast, get_args

Role: TypeAlias = Literal["reader", "agent", "operator"]
"""reader: asks. agent: also reviews, rates, sees traces. operator: also manages documents, keys, runs."""

ROLES: tuple[Role, ...] = get_args(Role)
"""From the least to the most."""

DEFAULT_GROUP = "default"
"""What collections belong to that were granted to nobody, and principals of which no group was said."""

EVERY_GROUP = "*"
"""Whoever is in it is in every group, and may manage the server as a whole."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who acts: `id` is unique (`local`, `key:…`, `oidc:…`, `proxy:…`), `name` is for people.

    `origin` is from where, this time: an address, or a terminal.
    """

    id: str
    name: str
    role: Role
    groups: frozenset[str]
    origin: str = field(default="", compare=False)

    def has(self, role: Role) -> bool:
        """Whether this is at least that role."""
        return ROLES.index(self.role) >= ROLES.index(role)

    @property
    def everywhere(self) -> bool:
        """Whether every group is its own."""
        return EVERY_GROUP in self.groups

    def in_group(self, group: str) -> bool:
        """Whether it belongs to a group."""
        return self.everywhere or group in self.groups

    def dump(self) -> str:
        """As JSON, for `load`."""
        return json.dumps({"id": self.id, "name": self.name, "role": self.role, "groups": sorted(self.groups)})

    @classmethod
    def load(cls, text: str) -> Principal:
        """What `dump` wrote."""
        kept = json.loads(text)
        return cls(kept["id"], kept["name"], cast("Role", kept["role"]), frozenset(kept["groups"]))


LOCAL = Principal("local", "this machine", "operator", frozenset({EVERY_GROUP}))
"""Who acts where no key is needed, and in terminal commands."""

DIAGNOSIS = replace(LOCAL, id="local:diagnosis", name="anaphora diagnose")
"""Whose turns are asked for a diagnosis, and so are nobody's questions."""

NOBODY = Principal("nobody", "nobody", "reader", frozenset())
"""Who acts where a key is needed and none was given: nothing is granted to it."""
