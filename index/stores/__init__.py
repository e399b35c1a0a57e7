"""Vector stores: where the vectors of a collection's versions lie, and how the nearest are found.

`protocol` says what a store is, `spec` which one a collection uses; `exact`, `quantised`, `chroma` and `milvus` come
with Anaphora, and others may be declared as entry points of `anaphora.vector_stores`. Which version serves, BM25,
filters and texts are the collection's.
"""

from index.stores.protocol import (
    EXACT,
    GROUP,
    Mask,
    Neighbours,
    OpenTerms,
    OpenVectors,
    StoreSpec,
    Take,
    TermStore,
    VectorStore,
    Weigh,
    delete_vectors,
    load_store,
)

__all__ = [
    "EXACT",
    "GROUP",
    "Mask",
    "Neighbours",
    "OpenTerms",
    "OpenVectors",
    "StoreSpec",
    "Take",
    "TermStore",
    "VectorStore",
    "Weigh",
    "delete_vectors",
    "load_store",
]
