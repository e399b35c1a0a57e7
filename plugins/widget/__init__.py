"""The chat widget of a web site: one script tag puts a button on a page, which opens the chat in a frame."""

from __future__ import annotations

from server.plugins import Plugin

plugin = Plugin(
    name="widget",
    summary="Show the chat on other web sites.",
    settings="plugins.widget.settings:WidgetSettings",
    routers=("plugins.widget.routes:router",),
    tasks=("plugins.widget.visitors:purge",),
    pages=("plugins.widget.routes:add_widget",),
    public_paths=frozenset({"/widget", "/widget.js"}),
    shared_paths=frozenset({"/widget.js"}),
    framed_paths=frozenset({"/widget"}),
)
