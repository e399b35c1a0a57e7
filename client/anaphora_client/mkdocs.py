"""A plugin of MkDocs: the chat widget on every page.

plugins:
  - search
  - anaphora: {server: https://chat.example.org, key: KEY, attributes: {collection: docs}}
"""

from __future__ import annotations

from typing import Any

from mkdocs.config import config_options
from mkdocs.config.base import Config
from mkdocs.exceptions import PluginError
from mkdocs.plugins import BasePlugin

from anaphora_client.widget import widget_address


class WidgetOptions(Config):
    """Options of the plugin in `mkdocs.yml`."""

    server = config_options.Type(str)
    key = config_options.Type(str)
    attributes = config_options.Type(dict, default={})


class WidgetPlugin(BasePlugin[WidgetOptions]):
    """Adds the script. Material's instant loading keeps it, and the conversation, from page to page."""

    def on_config(self, config: Any) -> None:
        """Raises PluginError for options that cannot work."""
        own = self.config
        try:
            config.extra_javascript.append(widget_address(own.server, own.key, own.attributes))
        except ValueError as error:
            raise PluginError(f"anaphora: {error}") from error
