"""Documents, passages and the search over them: Anaphora's retrieval, usable on its own.

What is named here is all that a program needs, and is imported when it is first used, so that importing the room costs
nothing. Whoever writes a vector store or a loader finds its contract in `index.stores` and `index.loaders`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from index.collection import Collection, delete_collection, list_collections
    from index.documents import Document, Section
    from index.encoders import Encoder, load_encoder
    from index.errors import IndexingError
    from index.indexer import delete_documents, index_documents, index_paths
    from index.query import Hit, Passage, Query
    from index.rerank import Reranker, load_reranker
    from index.retriever import HybridRetriever
    from index.stores import StoreSpec, VectorStore

__all__ = [
    "Collection",
    "Document",
    "Encoder",
    "Hit",
    "HybridRetriever",
    "IndexingError",
    "Passage",
    "Query",
    "Reranker",
    "Section",
    "StoreSpec",
    "VectorStore",
    "delete_collection",
    "delete_documents",
    "index_documents",
    "index_paths",
    "list_collections",
    "load_encoder",
    "load_reranker",
]

_HOMES = {
    "collection": ("Collection", "delete_collection", "list_collections"),
    "documents": ("Document", "Section"),
    "encoders": ("Encoder", "load_encoder"),
    "errors": ("IndexingError",),
    "indexer": ("delete_documents", "index_documents", "index_paths"),
    "query": ("Hit", "Passage", "Query"),
    "rerank": ("Reranker", "load_reranker"),
    "retriever": ("HybridRetriever",),
    "stores": ("StoreSpec", "VectorStore"),
}
_HOME = {name: f"index.{module}" for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
