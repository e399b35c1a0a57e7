"""A collection as a LangChain retriever, for anyone's LCEL chain, agent or graph."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field

from index.collection import DEPTH, Collection
from index.fusion import DEFAULT_K
from index.query import Hit, Query
from index.rerank import TOP


class HybridRetriever(BaseRetriever):
    """Finds passages by BM25 and by vector at once; `invoke`, `ainvoke` and `batch` as every retriever.

    Each LangChain document is a passage: `page_content` is its text; `metadata` holds the passage's own
    metadata and `document_id`, `title`, `heading` (a path, joined by " > "), `start`, `end`, `page`
    (where there are pages) and `score`. `reranker` is an `index.rerank.Reranker`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    collection: Collection
    k: int = Field(6, ge=1)
    where: dict[str, Any] | None = None
    depth: int = Field(DEPTH, ge=1)
    rrf_k: int = Field(DEFAULT_K, ge=1)
    lexical: float = Field(1.0, ge=0)
    dense: float = Field(1.0, ge=0)
    reranker: Any = None
    rerank_top: int = Field(TOP, ge=1)
    rerank_seconds: float = Field(0.5, gt=0)

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        wanted = max(self.k, self.rerank_top) if self.reranker else self.k
        hits = self.collection.search(
            [Query(query, lexical=self.lexical, dense=self.dense)],
            k=wanted,
            where=self.where,
            depth=max(self.depth, wanted),
            rrf_k=self.rrf_k,
        )
        if self.reranker:
            hits = self.reranker.rerank(query, hits, seconds=self.rerank_seconds, top=self.rerank_top)
        return [_document(hit) for hit in hits[: self.k]]


def _document(hit: Hit) -> Document:
    passage = hit.passage
    metadata: dict[str, Any] = {
        **passage.metadata,
        "document_id": passage.document_id,
        "title": passage.title,
        "heading": " > ".join(passage.heading),
        "start": passage.start,
        "end": passage.end,
        "score": hit.score,
    }
    if passage.page is not None:
        metadata["page"] = passage.page
    return Document(id=passage.id, page_content=passage.text, metadata=metadata)
