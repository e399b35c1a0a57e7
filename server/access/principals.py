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
    """An actor: `id` is unique (`local`, `key:…`, `oidc:…`, `proxy:…`), `name` is for people.

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
