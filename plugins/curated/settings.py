"""Settings of curated answers: `[plugins.curated]`."""

from __future__ import annotations

from pydantic import Field

from server.settings.groups import SettingsGroup


class CuratedSettings(SettingsGroup):
    """Configure curated answers."""

    enabled: bool = Field(
        False, description="Give the answers that people of the house wrote ahead, and let agents write them."
    )
