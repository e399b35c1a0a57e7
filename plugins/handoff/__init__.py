"""Hand-off: a way from the chat to a person, with the conversation and the visitor's consent.

`offering` says when it is offered, `service` takes a request and keeps it (`store`), and `delivering` brings it to
where people work, by the `adapters`, until it has arrived.
"""

from __future__ import annotations

from server.plugins import Plugin

plugin = Plugin(
    name="handoff",
    summary="Hand a conversation over to a person.",
    settings="plugins.handoff.settings:HandoffSettings",
    routers=("plugins.handoff.service:router",),
    tables=("plugins.handoff.store:TABLES",),
    tasks=("plugins.handoff.delivering:deliver",),
    page_calls={"hand_over": "plugins.handoff.page:hand_over"},
    turn_parts=("plugins.handoff.page:offer",),
    visitor_calls=frozenset({"hand_over"}),
)
