"""Write the settings with which an MCP program (an editor, a desktop assistant) reaches Anaphora."""

from __future__ import annotations

from typing import Any


def mcp_settings(url: str = "", *, key: str = "", collection: str = "") -> dict[str, Any]:
    """Return the `mcpServers` entry of a program's settings, for `json.dumps`.

    With the `url` of a running server the program connects to it. Without one the program starts `anaphora mcp` itself,
    which works on the home folder of the person who starts it. `collection` is what `anaphora mcp` searches by default.

    >>> mcp_settings("http://127.0.0.1:7860")
    {'mcpServers': {'anaphora': {'type': 'http', 'url': 'http://127.0.0.1:7860/mcp'}}}
    """
    if url:
        server: dict[str, Any] = {"type": "http", "url": f"{url.rstrip('/')}/mcp"}
        if key:
            server["headers"] = {"Authorization": f"Bearer {key}"}
    else:
        server = {"command": "anaphora", "args": ["mcp", *(["--collection", collection] if collection else [])]}
        if key:
            server["env"] = {"ANAPHORA_KEY": key}
    return {"mcpServers": {"anaphora": server}}
