"""The script tag of the chat widget, as documentation tools put it on every page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import urlencode

ATTRIBUTES = frozenset({
    "collection", "color", "disclaimer", "height", "label", "lang", "logo", "mode", "name", "page", "position",
    "search", "target", "theme", "where",
})  # fmt: skip
"""Attributes of the tag beside the key, without `data-`."""


def widget_address(server: str, key: str, attributes: Mapping[str, object] | None = None) -> str:
    """Return the address of the script, with the key and the attributes in its query.

    `where` may be a mapping. Raises ValueError for what is no address, no key or no attribute.

    >>> widget_address("https://chat.example.org/", "KEY", {"collection": "docs", "where": {"version": "2"}})
    'https://chat.example.org/widget.js?key=KEY&collection=docs&where=%7B%22version%22%3A+%222%22%7D'
    """
    given = dict(attributes or {})
    if not server.startswith(("https://", "http://")) or not key:
        raise ValueError("the chat needs a `server`, such as https://chat.example.org, and a `key` of the role visitor")
    if unknown := sorted(given.keys() - ATTRIBUTES):
        raise ValueError(f"the chat has no attribute {', '.join(unknown)}; it has {', '.join(sorted(ATTRIBUTES))}")
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}
    return f"{server.rstrip('/')}/widget.js?{urlencode({'key': key, **texts})}"
