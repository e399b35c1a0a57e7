"""`Principal`: who acts. A person who signed in, a program with a key, or whoever sits at this machine."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from text.names import is_name
from text.sanitize import sanitize_line

if TYPE_CHECKING:
    from server.access.settings import PeopleSettings


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


ID_CHARS = 400
"""The longest id; a subject of OpenID Connect has up to 255 characters."""

PERSON_CHARS = 100
"""A longer name is cut."""

GROUPS = 200
"""In more groups nobody is: the first in the order of their names count."""


class NotAdmitted(Exception):
    """Somebody who is known, but may not come in; the message says so to that person."""


def person(id: str, name: str, groups: Iterable[str] | None, rules: PeopleSettings) -> Principal:  # noqa: A002
    """The principal of a person in these groups, None where groups are not told of at all.

    Groups that cannot be names of groups here only count in the rules; a leading slash, which some providers set
    before each, does not count. Raises NotAdmitted for somebody in no group, or of an unusable id.
    """
    if not id.isprintable() or len(id) > ID_CHARS:
        raise NotAdmitted("The name of this account cannot be used here: it is too long, or has invisible characters.")
    names = {DEFAULT_GROUP} if groups is None else {group.strip().removeprefix("/") for group in groups}
    everywhere = any(group.removeprefix("/") in names for group in rules.every_group)
    member = frozenset({EVERY_GROUP}) if everywhere else frozenset(sorted(filter(is_name, names))[:GROUPS])
    if not member:
        raise NotAdmitted("This account is in no group that may come in here. Ask whoever runs this server.")
    roles = [role for group, role in rules.roles.items() if group.removeprefix("/") in names]
    role = max([rules.default_role, *roles], key=ROLES.index)
    return Principal(id, sanitize_line(name)[:PERSON_CHARS] or id, role, member)
