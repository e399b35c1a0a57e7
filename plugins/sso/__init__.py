"""Single sign-on: people come in by an OpenID Connect provider, or by a proxy that has signed them in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from server.access import DEFAULT_GROUP, EVERY_GROUP, ROLES, Principal, SignInFailed
from server.plugins import Plugin, SettingsGroup
from text.files import is_name
from text.sanitize import sanitize_line

plugin = Plugin(
    name="sso",
    summary="Sign people in by OpenID Connect or by the headers of a proxy.",
    settings="plugins.sso:SsoSettings",
    authenticators=("plugins.sso.authenticator:open_authenticator",),
    checks=("plugins.sso.authenticator:check_provider",),
)


ID_CHARS = 400
"""The longest id; a subject of OpenID Connect has up to 255 characters."""

PERSON_CHARS = 100
"""A longer name is cut."""

PersonsRole: TypeAlias = Literal["reader", "agent", "operator"]

GROUPS = 200
"""In more groups nobody is: the first in the order of their names count."""

_HEADER = re.compile(r"[A-Za-z0-9-]+")
_RESERVED = ("authorization", "cookie", "host", "origin")


def is_safe(address: str, *, local: bool = True) -> bool:
    """Return whether requests to an address are encrypted, or with `local` stay on this machine."""
    from server.settings import is_loopback

    parts = urlsplit(address)
    return parts.scheme == "https" or (local and parts.scheme == "http" and is_loopback(parts.hostname or ""))


class SsoSettings(SettingsGroup):
    """Configure who signs people in, and what their groups allow. Both ways are off by default."""

    issuer: str = Field("", description="The OpenID Connect provider's address, as its discovery document names it.")
    client_id: str = Field("", description="What the provider calls this server.")
    client_secret: SecretStr = Field(
        SecretStr(""), description="The secret it shares with this server; empty for a public client."
    )
    groups_claim: str = Field(
        "",
        description="The claim that lists a person's groups, who must be in one; empty puts everybody into the group "
        f"`{DEFAULT_GROUP}`.",
    )
    user_header: str = Field(
        "",
        description="The header by which a proxy of `server.proxies` names who signed in; empty: the proxy signs in "
        "nobody.",
    )
    groups_header: str = Field(
        "",
        description="The header that lists a person's groups, with `,` or `|` between them, who must be in one; empty "
        f"puts everybody into the group `{DEFAULT_GROUP}`.",
    )
    roles: dict[str, PersonsRole] = Field(
        {}, description="Which groups make an `agent` or `operator` of their members; the highest counts."
    )
    default_role: PersonsRole = Field("reader", description="Role of everybody else.")
    every_group: tuple[str, ...] = Field(
        (), description="Groups whose members reach every collection; the operators among them may manage the server."
    )
    session_hours: float = Field(
        12.0, gt=0, le=720, description="A session by the provider ends after this, in hours, and with it its rights."
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.issuer and not is_safe(self.issuer):
            raise ValueError("issuer must begin with https:// (http:// only on this machine)")
        if self.issuer and not self.client_id:
            raise ValueError("client_id is needed beside issuer")
        for header in self.headers:
            if not _HEADER.fullmatch(header):
                raise ValueError(f"{header} is no header name: letters, digits and dashes")
            if header.lower() in _RESERVED:
                raise ValueError(f"{header} has a meaning of its own; choose another header")
        if self.roles or self.every_group:
            for way, source, name in (
                (self.issuer, self.groups_claim, "groups_claim"),
                (self.user_header, self.groups_header, "groups_header"),
            ):
                if way and not source:
                    raise ValueError(f"roles and every_group need {name}, which says who is in which group")
        return self

    @property
    def signs_in(self) -> bool:
        """Whether people can sign in without a key."""
        return bool(self.issuer or self.user_header)

    @property
    def headers(self) -> tuple[str, ...]:
        """The headers that say who somebody is."""
        return tuple(filter(None, (self.user_header, self.groups_header)))

    def person(self, id: str, name: str, groups: Iterable[str] | None) -> Principal:  # noqa: A002
        """Return the principal of a person in `groups`; None where the sign-in tells no groups.

        A leading slash, which some providers set before each group, does not count. Names that cannot be groups here
        count in the rules only. Raises SignInFailed for somebody in no group, or with an unusable id.
        """
        if not id.isprintable() or len(id) > ID_CHARS:
            raise SignInFailed(
                "The name of this account cannot be used here: it is too long, or has invisible characters.", 403
            )
        names = {DEFAULT_GROUP} if groups is None else {group.strip().removeprefix("/") for group in groups}
        everywhere = any(group.removeprefix("/") in names for group in self.every_group)
        member = frozenset({EVERY_GROUP}) if everywhere else frozenset(sorted(filter(is_name, names))[:GROUPS])
        if not member:
            raise SignInFailed("This account is in no group that may come in here. Ask whoever runs this server.", 403)
        roles = [role for group, role in self.roles.items() if group.removeprefix("/") in names]
        role = max([self.default_role, *roles], key=ROLES.index)
        return Principal(id, sanitize_line(name)[:PERSON_CHARS] or id, role, member)
