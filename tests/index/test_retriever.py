from __future__ import annotations

import asyncio
import importlib
import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from index import Collection, Document, HybridRetriever, Section
from index.indexer import index_documents
from index.query import Hit
from testing.encoder import WordEncoder
from tests.heavy_imports import LATE
from text.asking import QuestionContext

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def collection(tmp_path: Path, documents: list[Document], words: WordEncoder) -> Collection:
    paged = Document("guide.pdf", "Guide", "Zebra stripes.", (Section(("Part", "Sub"), 0, 14, 7),), {"source": "g"})
    index_documents(tmp_path, "docs", [*documents, paged], words)
    return Collection.open(tmp_path, "docs", words)


def test_passages_come_as_langchain_documents(collection: Collection) -> None:
    (found,) = HybridRetriever(collection=collection, k=1).invoke("zebra stripes")
    assert found.page_content == "Zebra stripes."
    assert found.id
    score = found.metadata.pop("score")
    assert score > 0
    assert found.metadata == {
        "source": "g",
        "document_id": "guide.pdf",
        "title": "Guide",
        "heading": "Part > Sub",
        "start": 0,
        "end": 14,
        "page": 7,
    }


def test_it_finds_what_the_collection_finds(collection: Collection) -> None:
    from index.query import Query

    expected = [hit.passage.id for hit in collection.search([Query("claims office form")], k=3)]
    retriever = HybridRetriever(collection=collection, k=3)
    assert [document.id for document in retriever.invoke("claims office form")] == expected
    assert [document.id for document in asyncio.run(retriever.ainvoke("claims office form"))] == expected
    first, second = retriever.batch(["claims office form", "claims office form"])
    assert [document.id for document in first] == [document.id for document in second] == expected


def test_options_reach_the_search(collection: Collection) -> None:
    retriever = HybridRetriever(collection=collection, k=10, where={"domain": "money"})
    assert {document.metadata["domain"] for document in retriever.invoke("form office")} == {"money"}
    assert HybridRetriever(collection=collection, dense=0.0).invoke("submarine") == []


def test_a_reranker_has_the_last_word(collection: Collection) -> None:
    class Backwards:
        name = "backwards"
        reads_conversations = False
        reader = None

        def rerank(
            self,
            question: str,
            hits: Sequence[Hit],
            seconds: float,
            top: int = 20,
            weight: float = 1.0,
            context: QuestionContext | None = None,
        ) -> list[Hit]:
            return list(hits)[::-1]

    plain = HybridRetriever(collection=collection, k=6).invoke("claims office form")
    turned = HybridRetriever(collection=collection, k=2, reranker=Backwards()).invoke("claims office form")
    assert [document.id for document in turned] == [document.id for document in plain[::-1][:2]]


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "langchain_rag", REPOSITORY / "docs" / "examples" / "langchain_rag.py"
    )
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Searching(BaseChatModel):
    """Calls the search tool once and then answers with what it was given."""

    @property
    def _llm_type(self) -> str:
        return "searching"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Searching:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        last = messages[-1]
        if isinstance(last, ToolMessage):
            message = AIMessage(f"The documentation says: {last.text}")
        else:
            call = {"name": "search_documentation", "args": {"query": last.text}, "id": "1"}
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


def test_the_examples_chain_answers_from_what_was_found(example: ModuleType, collection: Collection) -> None:
    seen: list[str] = []

    class Recording(GenericFakeChatModel):
        def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
            seen.extend(message.text for message in messages)
            return super()._generate(messages, *args, **options)

    model = Recording(messages=iter([AIMessage("By fax [1].")]))
    chain = example.chain(HybridRetriever(collection=collection, k=2), model)
    assert chain.invoke("Which fax number has the claims office?") == "By fax [1]."
    assert "The fax number is printed on the form." in seen[0]
    assert seen[1] == "Which fax number has the claims office?"


def test_the_examples_agent_searches_and_answers(example: ModuleType, collection: Collection) -> None:
    answer = example.ask_agent(
        HybridRetriever(collection=collection, k=1), Searching(), "fax number of the claims office"
    )
    assert answer.startswith("The documentation says: Send the form by fax")


def test_importing_the_room_loads_nothing_heavy() -> None:
    program = "import sys, index; from index import Document, Query; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], check=True, timeout=60, capture_output=True, text=True)
    assert LATE & set(run.stdout.split()) == set()
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        importlib.import_module("index").nothing  # noqa: B018
