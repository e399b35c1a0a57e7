"""The chat widget of a web site: one script tag puts a button on a page, which opens the chat in a frame."""

from __future__ import annotations

import re

from pydantic import Field, field_validator

from server.plugins import Plugin
from server.settings.groups import SettingsGroup

_ORIGIN = re.compile(r"https?://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?")


class WidgetSettings(SettingsGroup):
    """Configure which web sites may show the widget."""

    origins: tuple[str, ...] = Field(
        (),
        description="Web sites that may show the chat widget, as origins: `https://www.example.org`; empty: none.",
    )

    @field_validator("origins")
    @classmethod
    def _origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(f"{origin} is no origin: write it as https://www.example.org, without a path")
        return origins


plugin = Plugin(
    name="widget",
    summary="Show the chat on other web sites.",
    settings="plugins.widget:WidgetSettings",
    routers=("plugins.widget.routes:router",),
    pages=("plugins.widget.routes:add_widget",),
    public_paths=frozenset({"/widget", "/widget.js"}),
    shared_paths=frozenset({"/widget.js"}),
    framed_paths=frozenset({"/widget"}),
)
