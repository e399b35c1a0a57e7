"""Hand-off: a way from the chat to a person, with the conversation and the visitor's consent.

`handoffs` says when it is offered, shows the form and takes a request, `store` keeps it, and `delivering` brings it to
where people work until it has arrived. `asking` tells who asks for a person.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

from server.plugins import Plugin, SettingsGroup
from text.languages import message

TALK = message("Talk to a person")

plugin = Plugin(
    name="handoff",
    summary="Hand a conversation over to a person.",
    settings="plugins.handoff:HandoffSettings",
    routers=("plugins.handoff.handoffs:router",),
    tables=("plugins.handoff.store:TABLES",),
    tasks=("plugins.handoff.delivering:deliver",),
    page_calls={"hand_over": "plugins.handoff.handoffs:send_form"},
    turn_parts=("plugins.handoff.handoffs:offer_below",),
    replies=("plugins.handoff.handoffs:replier",),
    standing_messages=(TALK,),
    visitor_calls=frozenset({"hand_over"}),
)


_SCHEMES = {"email": ("smtp://", "smtps://")}


class HandoffSettings(SettingsGroup):
    """Configure where a conversation goes that a person shall go on with."""

    kind: Literal["", "link", "webhook", "email", "github", "zendesk"] = Field(
        "",
        description="`link` shows a link; the others show a form and bring the conversation to a `webhook`, by "
        "`email`, into issues of `github` or tickets of `zendesk`. Empty: nothing is offered.",
    )
    address: str = Field(
        "",
        description="Of the page, of the webhook, of the mailbox (`smtp://USER@HOST:587/support@example.org`, or "
        "`smtps://`), of the repository (`https://api.github.com/repos/OWNER/NAME`; issues of a public one are "
        "public), or of Zendesk (`https://NAME.zendesk.com`).",
    )
    secret: SecretStr = Field(
        SecretStr(""),
        description="The key by which webhooks are signed, the mailbox's password, the token of GitHub, or "
        "`AGENT/token:TOKEN` of Zendesk.",
    )
    private_hosts: tuple[str, ...] = Field(
        (), description="Hosts that may be reached although their addresses are private: `desk.example.lan`."
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        schemes = _SCHEMES.get(self.kind, ("https://", "http://"))
        if self.kind and not self.address.startswith(schemes):
            raise ValueError(f"kind = {self.kind!r} needs an address that begins with {' or '.join(schemes)}")
        if self.kind in ("webhook", "github", "zendesk") and not self.secret.get_secret_value():
            raise ValueError(f"kind = {self.kind!r} needs a secret")
        return self

    @property
    def enabled(self) -> bool:
        return bool(self.kind)

    @property
    def asks_contact(self) -> bool:
        """Whether the visitor's address goes along: issues may be public."""
        return self.kind in ("webhook", "email", "zendesk")
