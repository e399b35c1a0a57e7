"""An extension of Sphinx: the chat widget on every page.

extensions = ["anaphora_client.sphinx"]
anaphora = {"server": "https://chat.example.org", "key": "KEY", "attributes": {"collection": "docs"}}
"""

from __future__ import annotations

from typing import Any

from sphinx.errors import ExtensionError

from anaphora_client.widget import widget_address


def setup(app: Any) -> dict[str, bool]:
    """Register the extension and its one value."""
    app.add_config_value("anaphora", {}, "html", (dict,))
    app.connect("builder-inited", _add_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _add_script(app: Any) -> None:
    try:
        app.add_js_file(widget_address(**{"server": "", "key": "", **app.config.anaphora}), loading_method="async")
    except (ValueError, TypeError) as error:
        raise ExtensionError(f"anaphora: {error}") from error
