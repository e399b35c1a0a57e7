"""From what a provider or proxy says about a person to a `Principal`. Where that was said, is the door's business."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from server.access.principals import DEFAULT_GROUP, EVERY_GROUP, ROLES, Principal
from text.names import is_name
from text.sanitize import showable_line

if TYPE_CHECKING:
    from server.access.settings import PeopleSettings

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
    said = {DEFAULT_GROUP} if groups is None else {group.strip().removeprefix("/") for group in groups}
    everywhere = any(group.removeprefix("/") in said for group in rules.every_group)
    member = frozenset({EVERY_GROUP}) if everywhere else frozenset(sorted(filter(is_name, said))[:GROUPS])
    if not member:
        raise NotAdmitted("This account is in no group that may come in here. Ask whoever runs this server.")
    roles = [role for group, role in rules.roles.items() if group.removeprefix("/") in said]
    role = max([rules.default_role, *roles], key=ROLES.index)
    return Principal(id, showable_line(name)[:PERSON_CHARS] or id, role, member)
