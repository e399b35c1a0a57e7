"""Use an Anaphora server in a LangChain program: as a retriever, and as the tools of an agent.

Needs `langchain-core` (`pip install "anaphora-client[langchain]"`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import ConfigDict, Field

from anaphora_client.http import AnaphoraClient, FoundPassage, Message


class AnaphoraRetriever(BaseRetriever):
    """Retrieve passages as the server's own chat does: rewriting, BM25, vectors, fusion and cross-encoder.

    `history` holds the messages before the question, so that a follow-up is searched with them; `k` is how many
    passages are returned, `where` the metadata that they must have. Each LangChain document is a passage:
    `page_content` is its text; `metadata` holds `document_id`, `title`, `heading` (a path, joined by " > "), `start`,
    `end`, `page` where there are pages, and `score`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    client: AnaphoraClient
    collection: str = ""
    history: Sequence[dict[str, str]] = ()
    k: int = Field(6, ge=1, le=200)
    where: dict[str, Any] | None = None

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        history = cast("Sequence[Message]", self.history)
        passages = self.client.search(query, collection=self.collection, history=history, k=self.k, where=self.where)
        return [_document(passage) for passage in passages]


def anaphora_tools(client: AnaphoraClient, collection: str = "", *, k: int = 5) -> list[BaseTool]:
    """Return two tools for an agent: `search_documentation` (passages) and `ask_documentation` (a checked answer)."""

    def search_documentation(query: str) -> str:
        """Find passages of the documentation, best first. Write the query so that it can be understood alone."""
        passages = client.search(query, collection=collection, k=k)
        texts = (f"[{n}] {_place(passage)}\n{passage.text}" for n, passage in enumerate(passages, start=1))
        return "\n\n".join(texts) or "No passage was found."

    def ask_documentation(question: str) -> str:
        """Answer a question from the documentation, with sources [n]. Write the question so that it stands alone."""
        answer = client.ask(question, collection=collection)
        sources = "\n".join(f"[{source.n}] {_place(source)} {source.url}".rstrip() for source in answer.sources)
        return f"{answer.status}: {answer.text}\n\n{sources}".rstrip()

    return [StructuredTool.from_function(search_documentation), StructuredTool.from_function(ask_documentation)]


def _place(passage: FoundPassage) -> str:
    return " > ".join((passage.title, *passage.heading))


def _document(passage: FoundPassage) -> Document:
    metadata: dict[str, Any] = {
        "document_id": passage.document_id,
        "title": passage.title,
        "heading": " > ".join(passage.heading),
        "start": passage.start,
        "end": passage.end,
        "score": passage.score,
    }
    if passage.page is not None:
        metadata["page"] = passage.page
    return Document(id=f"{passage.document_id}:{passage.start}", page_content=passage.text, metadata=metadata)
