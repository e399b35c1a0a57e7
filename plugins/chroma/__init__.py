"""The vector store Chroma: on a server, or on one that Anaphora starts over the collection's folder."""

from __future__ import annotations

from server.plugins import Plugin

plugin = Plugin(name="chroma", summary="Keep vectors in Chroma.")
