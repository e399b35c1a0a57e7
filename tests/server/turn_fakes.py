"""What tests of the turn are made of: evidence, a collection that finds its list."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import regex

from index.documents import Document, Hit, Passage, Query, Section, TokenStates, Where
from index.encoders import Vectors
from server.turn.events import Evidence
from text.prompts import QuestionContext

if TYPE_CHECKING:
    from index.rerank import Reranker

LEAVE = "Parental leave lasts ten weeks. It may be taken in two parts. It is not paid after week 8."
FAX = "Apply with form PL-7 at the office. The form may also be sent by fax to 555-0199."


def evidence(*texts: str, title: str = "Handbook", heading: Sequence[str] = ("Leave",)) -> list[Evidence]:
    """Passages numbered from 1, the second beginning at 1,000 in its document, and so on."""
    return [
        Evidence(
            n=n,
            passage_id=f"p{n}",
            document_id=f"d{n}.md",
            title=title,
            heading=list(heading),
            page=None,
            start=1000 * (n - 1),
            end=1000 * (n - 1) + len(text),
            text=text,
            source=f"d{n}.md",
            score=1.0,
            ranks={},
        )
        for n, text in enumerate(texts, 1)
    ]


def passage(text: str, document_id: str = "d1.md", start: int = 0, **fields: Any) -> Passage:
    """A passage under `Handbook > Leave`."""
    values: dict[str, Any] = {
        "id": f"{document_id}:{start}",
        "title": "Handbook",
        "end": start + len(text),
        "heading": ("Leave",),
        "metadata": {"source": document_id},
    }
    return Passage(document_id=document_id, text=text, start=start, **(values | fields))


@dataclass
class FakeCollection:
    """Finds `texts` in their order whatever is asked; keeps what was asked."""

    texts: Sequence[str] = (LEAVE, FAX)
    error: Exception | None = None
    before: Callable[[], None] = lambda: None
    asked: list[tuple[tuple[Query, ...], Where | None]] = field(default_factory=list)
    version: str = "v1"

    def search(
        self, queries: Sequence[Query], k: int = 20, where: Where | None = None, depth: int = 100, rrf_k: int = 60
    ) -> list[Hit]:
        self.asked.append((tuple(queries), where))
        self.before()
        if self.error:
            raise self.error
        hits = [Hit(passage(text, f"d{n}.md"), 1 / n, {"typed/bm25": n}) for n, text in enumerate(self.texts, 1)]
        return hits[:k]

    def document(self, document_id: str) -> Document:
        text = self.texts[int(document_id[1:-3]) - 1]
        return Document(document_id, "Handbook", text, (Section(("Leave",), 0, len(text)),))

    def question_vector(self, text: str, encoder: str) -> Vectors | None:
        return None


class Reversing:
    """A cross-encoder that turns the list round; keeps what it was asked, in which context, and what it counts."""

    name = "reversing"

    def __init__(self, reads_conversations: bool = False) -> None:
        self.reads_conversations = reads_conversations
        self.reader: Reranker | None = None
        self.asked: list[str] = []
        self.contexts: list[QuestionContext | None] = []
        self.weights: list[float] = []

    def rerank(
        self,
        question: str,
        hits: Sequence[Hit],
        seconds: float,
        top: int = 20,
        weight: float = 1.0,
        context: QuestionContext | None = None,
        alone: Collection[str] = (),
    ) -> list[Hit]:
        self.asked.append(question)
        self.contexts.append(context)
        self.weights.append(weight)
        return list(reversed(hits))


class Showing(Reversing):
    """A cross-encoder that shows states, all alike, and finds each passage as likely as it is told."""

    def __init__(self, score: float, reads_conversations: bool = False, relevance: float = 0.0) -> None:
        super().__init__(reads_conversations)
        self.reader, self.score, self.relevance = self, score, relevance

    def rerank(self, question: str, hits: Sequence[Hit], *args: Any, **options: Any) -> list[Hit]:
        super().rerank(question, hits, *args, **options)
        return [
            replace(hit, score=self.score, relevance=self.relevance, tokens=states_of(hit.passage.text)) for hit in hits
        ]


def states_of(text: str) -> TokenStates:
    """States without any meaning, one for each word and two for the question."""
    spans = [(0, 0), (0, 0), *(match.span() for match in regex.finditer(r"\S+", text))]
    return TokenStates(np.zeros((len(spans), 768), dtype=np.float32), tuple(spans), 2)
