"""The chat widget of a web site: one script tag puts a button on a page, which opens the chat in a frame."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator

from server.plugins import Plugin, SettingsGroup

plugin = Plugin(
    name="widget",
    summary="Show the chat on other web sites.",
    settings="plugins.widget:WidgetSettings",
    routers=("plugins.widget.routes:router",),
    tasks=("plugins.widget.visitors:purge",),
    pages=("plugins.widget.routes:add_widget",),
    public_paths=frozenset({"/widget", "/widget.js"}),
    shared_paths=frozenset({"/widget.js"}),
    framed_paths=frozenset({"/widget"}),
    visitor_paths=frozenset({"/v1/widget/"}),
)


_ORIGIN = re.compile(r"https?://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?")


class WidgetSettings(SettingsGroup):
    """Configure which web sites may show the widget, and what is kept of their visitors."""

    origins: tuple[str, ...] = Field(
        (), description="Web sites that may show the chat widget, as origins: `https://www.example.org`; empty: none."
    )
    keep: Literal["on", "off", "no texts"] = Field(
        "on",
        description="Keep visitors' turns under a pseudonym, for review, insights and hand-off; `no texts` keeps "
        "counts and seconds, `off` nothing.",
    )
    days: int = Field(
        90, ge=0, description="Days that a visitor's turn is kept, rated or not; 0: as `trace.days` says."
    )
    visitor_per_minute: int = Field(
        10, ge=0, description="Questions of one visitor a minute; ten searches while typing count as one. 0: no limit."
    )
    address_per_minute: int = Field(
        60, ge=0, description="The same of one IP address (of a /64 network with IPv6), which many may share."
    )
    forms_per_hour: int = Field(
        10, ge=0, description="Hand-offs that one visitor, and one address, may send an hour; 0: no limit."
    )

    @field_validator("origins")
    @classmethod
    def _origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(f"{origin} is no origin: write it as https://www.example.org, without a path")
        return origins
