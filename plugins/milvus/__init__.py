"""The vector store Milvus, on a server or a cluster."""

from __future__ import annotations

from server.plugins import Plugin

plugin = Plugin(name="milvus", summary="Keep vectors in Milvus.")
