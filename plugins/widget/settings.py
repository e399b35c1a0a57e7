"""Settings of the widget: `[plugins.widget]`."""

from __future__ import annotations

import re

from pydantic import Field, field_validator

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
