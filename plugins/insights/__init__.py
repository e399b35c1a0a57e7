"""Insights: what people ask, how it went, and what the documents lack, as JSON, CSV and a Markdown report."""

from __future__ import annotations

from server.plugins import Plugin

plugin = Plugin(
    name="insights",
    summary="Report what people ask and what the documents lack.",
    settings="plugins.insights.settings:InsightsSettings",
    workbench={"health": "plugins.insights:workbench_health"},
    routers=("plugins.insights.topics:router",),
)
