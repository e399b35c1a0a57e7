"""Settings of how people come in, beside the keys: an OpenID Connect provider, a proxy that says who they are.

They are part of `server.settings`, which builds them.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from server.access.principals import DEFAULT_GROUP, Role


def is_loopback(host: str) -> bool:
    """Whether a name or address means this machine, and can be reached from nowhere else."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class PeopleSettings(BaseModel):
    """Rights of signed-in people, by the groups that the provider or the proxy reports."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    roles: dict[str, Role] = Field(
        {},
        description="Which groups make an `agent` or `operator` of their members; the highest counts.",
    )
    default_role: Role = Field("reader", description="Role of everybody else.")
    every_group: tuple[str, ...] = Field(
        (),
        description="Groups whose members reach every collection; the operators among them may manage the server.",
    )

    def demand(self, name: str, source: str) -> None:
        """Refuse rules about groups where none are told. Raises ValueError."""
        if not source and (self.roles or self.every_group):
            raise ValueError(f"roles and every_group need {name}, which says who is in which group")


class OidcSettings(PeopleSettings):
    """Signing in with an OpenID Connect provider; off while `oidc.issuer` is empty."""

    issuer: str = Field("", description="The provider's address, as its discovery document names it.")
    client_id: str = Field("", description="What the provider calls this server.")
    client_secret: SecretStr = Field(
        SecretStr(""), description="The secret it shares with this server; empty for a public client."
    )
    scopes: tuple[str, ...] = Field(("openid", "profile", "email"), description="What the provider is asked for.")
    label: str = Field("", description="What the button says after “Sign in with”; empty takes the issuer's host.")
    name_claim: str = Field("name", description="The claim that holds a person's name.")
    groups_claim: str = Field(
        "",
        description="The claim that lists a person's groups, who must be in one; empty puts everybody into the group "
        f"`{DEFAULT_GROUP}`.",
    )
    session_hours: float = Field(
        12.0, gt=0, le=720, description="A session ends after this, and with it what the groups allowed, in hours."
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if not self.issuer:
            return self
        address = urlsplit(self.issuer)
        if address.scheme != "https" and not (address.scheme == "http" and is_loopback(address.hostname or "")):
            raise ValueError("issuer must begin with https:// (http:// only on this machine)")
        if not self.client_id:
            raise ValueError("client_id is needed beside issuer")
        if "openid" not in self.scopes:
            raise ValueError("scopes must have openid among them")
        self.demand("groups_claim", self.groups_claim)
        return self


class ProxySettings(PeopleSettings):
    """A proxy before the server: which addresses are its, and whether it says who people are."""

    addresses: tuple[str, ...] = Field(
        (),
        description="Addresses and networks of proxies, such as `127.0.0.1` or `10.0.0.0/8`, whose X-Forwarded headers "
        "are believed; with one, a key or signing in is always needed.",
    )
    user_header: str = Field(
        "", description="The header by which the proxy names who signed in; empty lets the proxy sign in nobody."
    )
    name_header: str = Field("", description="The header that holds a person's name; empty takes the user's.")
    groups_header: str = Field(
        "",
        description="The header that lists a person's groups, with `,` or `|` between them, who must be in one; empty "
        f"puts everybody into the group `{DEFAULT_GROUP}`.",
    )

    @field_validator("addresses")
    @classmethod
    def _networks(cls, addresses: tuple[str, ...]) -> tuple[str, ...]:
        for address in addresses:
            ipaddress.ip_network(address)
        return addresses

    @model_validator(mode="after")
    def _trusted(self) -> Self:
        if self.user_header and not self.addresses:
            raise ValueError("user_header needs addresses: whose header is believed")
        for header in self.headers:
            if not re.fullmatch(r"[A-Za-z0-9-]+", header):
                raise ValueError(f"{header} is no header name: letters, digits and dashes")
            if header.lower() in ("authorization", "cookie", "host", "origin"):
                raise ValueError(f"{header} has a meaning of its own; choose another header")
        self.demand("groups_header", self.groups_header)
        return self

    @property
    def headers(self) -> tuple[str, ...]:
        """The headers that say who somebody is."""
        return tuple(filter(None, (self.user_header, self.name_header, self.groups_header)))
