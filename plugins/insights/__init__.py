"""Insights: what people ask, how it went, and what the documents lack, as JSON, CSV and a Markdown report."""

from __future__ import annotations

from pydantic import Field

from server.plugins import Plugin, SettingsGroup

plugin = Plugin(
    name="insights",
    summary="Report what people ask and what the documents lack.",
    settings="plugins.insights:InsightsSettings",
    workbench={"health": "plugins.insights:workbench_health"},
    routers=("plugins.insights.topics:router",),
)


class InsightsSettings(SettingsGroup):
    """Configure insights."""

    enabled: bool = Field(False, description="Let agents see what people ask, grouped by meaning.")
