"""Settings of insights: `[plugins.insights]`."""

from __future__ import annotations

from pydantic import Field

from server.plugins import SettingsGroup


class InsightsSettings(SettingsGroup):
    """Configure insights."""

    enabled: bool = Field(True, description="Let agents see what people ask, grouped by meaning.")
