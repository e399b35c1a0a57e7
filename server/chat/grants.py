"""The part of the service that gives and takes: API keys, and the groups that may use a collection.

Nobody gives more than there is: a key's role and groups are within those of whoever makes it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from sqlalchemy import Connection

from server.access import DEFAULT_GROUP, EVERY_GROUP, Role, policy
from server.audit_log import entry
from server.chat.acting import Acting, acting
from server.chat.collections import checked_name
from server.chat.errors import Conflict, Forbidden, InvalidRequest, NotFound
from server.chat.types import KeySummary, NewKey
from server.store import audit, grants, keys
from text.names import NAME_RULE, is_name

MAX_GROUPS = 100
MAX_KEY_NAME = 100
DAY = 86_400.0


def checked_group(group: str) -> str:
    """`group` if one may be called so. Raises InvalidRequest."""
    if not is_name(group):
        raise InvalidRequest(f"This cannot be a group's name: use {NAME_RULE}.", code="invalid_group", param="group")
    return group


def foreign_group(group: str) -> Forbidden:
    """The refusal to do something for a group of others."""
    return Forbidden(f"You are not in the group {group[:80]!r}.")


class GrantMixin(Acting):
    """Keys and grants."""

    @acting("keys")
    async def keys(self) -> list[KeySummary]:
        """Every key whose role and groups are within those of whoever asks, oldest first; never the key itself."""
        found = await self._read(keys.listing)
        return [KeySummary.of(key) for key in found if policy.may_give(self.principal, key.role, key.groups)]

    @acting("keys")
    async def create_key(
        self, name: str, role: Role = "reader", groups: Sequence[str] = (DEFAULT_GROUP,), days: float | None = None
    ) -> NewKey:
        """Make a key, which is told this once. `days` is how long it opens anything; None: until it is revoked.

        Raises Forbidden for a role or a group beyond one's own.
        """
        label = " ".join("".join(char if char.isprintable() else " " for char in name).split())
        if not label or len(name) > MAX_KEY_NAME:
            raise InvalidRequest("A key's name has 1 to 100 characters; say whose it is, or what for.", param="name")
        if not groups or len(groups) > MAX_GROUPS:
            raise InvalidRequest(f"A key is in 1 to {MAX_GROUPS} groups.", param="groups")
        within = frozenset(group if group == EVERY_GROUP else checked_group(group) for group in groups)
        if days is not None and not 0 < days <= 36_500:
            raise InvalidRequest("A key lasts more than no days, and 36,500 at most.", param="expires_days")
        if not policy.may_give(self.principal, role, within):
            raise self.refusal("keys", error=Forbidden("A key has no more than your own role and groups."))
        expires = None if days is None else time.time() + days * DAY

        def make(connection: Connection) -> tuple[keys.ApiKey, str]:
            made, secret = keys.create(connection, label, role, within, expires)
            detail = {"name": label, "role": role, "groups": sorted(within), "expires": expires}
            audit.append(connection, entry(self.principal, "key.create", made.id, detail=detail))
            return made, secret

        made, secret = await self._write(make)
        return NewKey(**KeySummary.of(made).model_dump(), key=secret)

    @acting("keys")
    async def revoke_key(self, key_id: str) -> None:
        """Make a key useless from now on, with the sessions that began with it. Raises NotFound."""
        wanted = key_id.strip()[:80]
        known = {key.id for key in await self.keys() if key.revoked is None}
        if wanted not in known:
            raise NotFound(f"There is no active key {wanted!r}.", code="key_not_found")
        await self.account("key.revoke", wanted)
        await self._write(keys.revoke, wanted)

    @acting("grants")
    async def grants(self, collection: str) -> list[str]:
        """The groups that may use a collection, as far as whoever asks is in them. Raises NotFound."""
        name = checked_name(collection)
        await self.reached(name)
        granted = await self._read(grants.of, name)
        return [group for group in granted or [DEFAULT_GROUP] if self.principal.in_group(group)]

    @acting("grants")
    async def grant(self, collection: str, group: str) -> list[str]:
        """Let a group use a collection, and give those that may. One that was granted to nobody so far belonged to
        the group `default`, which then needs a grant too. Raises NotFound, or Forbidden for a group of others."""
        name = checked_name(collection)
        if not self.principal.in_group(checked_group(group)):
            raise self.refusal("grants", name, foreign_group(group))
        await self.reached(name)
        await self.account("grant.add", group, collection=name, group=group)
        await self._write(grants.add, name, group)
        return await self.grants(name)

    @acting("grants")
    async def revoke_grant(self, collection: str, group: str) -> None:
        """Take a collection from a group. Raises NotFound, or Conflict for its last one."""
        name = checked_name(collection)
        if group not in await self.grants(name):
            raise NotFound(f"{name} is not granted to {group[:80]!r}.", code="grant_not_found")
        gone = await self._write(grants.remove, name, group)
        await self.account("grant.remove", group, collection=name, group=group, outcome="done" if gone else "refused")
        if not gone:
            raise Conflict(
                f"{group} is the last group {name} is granted to, and without any it would belong to `default`. Grant "
                "it to another group first, or delete the collection.",
                code="last_grant",
            )
