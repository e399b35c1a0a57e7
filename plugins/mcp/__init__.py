"""Agents over the Model Context Protocol: search, ask and read sources, on the server's port or on standard input."""

from __future__ import annotations

from server.plugins import Plugin

plugin = Plugin(
    name="mcp",
    summary="Let agents search, ask and read over the Model Context Protocol.",
    routers=("plugins.mcp.tools:router",),
    commands={"mcp": "plugins.mcp.stdio:app"},
)
