"""The vector store Milvus: on a server or cluster, or as Milvus Lite in the collection's folder."""

from __future__ import annotations

from server.plugins import Plugin

plugin = Plugin(name="milvus", summary="Keep vectors and words in Milvus.")
