"""Documents, passages and the search over them: Anaphora's retrieval, usable on its own.

What is named here is imported when it is first used, so that importing the room costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from index.collection import Collection
    from index.documents import Document, Section
    from index.query import Hit, Passage, Query
    from index.retriever import HybridRetriever

__all__ = ["Collection", "Document", "Hit", "HybridRetriever", "Passage", "Query", "Section"]

_HOMES = {
    "Collection": "index.collection",
    "Document": "index.documents",
    "Hit": "index.query",
    "HybridRetriever": "index.retriever",
    "Passage": "index.query",
    "Query": "index.query",
    "Section": "index.documents",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
