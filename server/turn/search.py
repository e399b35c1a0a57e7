"""The searching half of a turn: rewrite, legs, fused search, rerank.

The same code serves a chat turn, `/v1/search` and the batch commands, so that what is measured is what is
served. Everything here blocks; time limits and threads are the pipeline's business.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from index.documents import Document
from index.query import Hit, Query, Where
from rewriter.conversation import Conversation
from rewriter.protocol import Rewrite, Rewriter
from server.settings import Settings
from server.turn.legs import Legs, build_legs

if TYPE_CHECKING:
    from index.rerank import Reranker

EDITED = "edited"
"""The decision shown where a person wrote the search text."""


class Searchable(Protocol):
    """What a turn needs of a collection; `index.collection.Collection` is one."""

    @property
    def version(self) -> str:
        """Names the state of the collection that is searched."""

    def search(
        self, queries: Sequence[Query], k: int = 20, where: Where | None = None, depth: int = 100, rrf_k: int = 60
    ) -> list[Hit]:
        """The best `k` passages for weighted queries, best first."""

    def document(self, document_id: str) -> Document:
        """A document by its id."""


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """What will be searched for. `decision` is the rewriter's, or `edited`."""

    question: str
    rewrite: Rewrite
    decision: str
    legs: Legs

    @property
    def meaning(self) -> str:
        """The question in full, as far as a sentence is known that says it."""
        return self.question if self.rewrite.decision == "expand" else self.legs.rerank_question or self.question

    @property
    def matching(self) -> str:
        """What sentences are matched with: the question in full, or else together with the user turn before it."""
        with_users = next((leg.text for leg in self.legs.queries if leg.name == "users"), self.question)
        return self.legs.rerank_question or with_users


@dataclass(frozen=True, slots=True)
class Found:
    """What one search came to: hits best first, and seconds by step (`rewrite`, `search`, `rerank`)."""

    plan: SearchPlan
    hits: list[Hit]
    reranked: bool
    seconds: dict[str, float]


class TurnSearch:
    """Searches as a turn does. `collection` opens one by name and may raise an IndexingError."""

    def __init__(
        self,
        *,
        collection: Callable[[str], Searchable],
        rewriter: Rewriter,
        settings: Settings,
        reranker: Reranker | None = None,
    ) -> None:
        self.rewriter = rewriter
        self.settings = settings
        self._collection = collection
        self._reranker = reranker

    def collection(self, name: str) -> Searchable:
        """The collection of that name."""
        return self._collection(name)

    def plan(
        self, question: str, conversation: Conversation, rewrite: Rewrite, search_for: str | None = None
    ) -> SearchPlan:
        """The legs of a question. A `search_for` written by a person stands in for the rewrite."""
        if search_for is not None and search_for.strip():
            text = search_for.strip()
            edited = Rewrite(text, "rewrite" if text != question else "keep", confidence=1.0)
            legs = self._legs(conversation, question, edited)
            return SearchPlan(question, edited, EDITED, Legs(legs.queries, text))
        return SearchPlan(question, rewrite, rewrite.decision, self._legs(conversation, question, rewrite))

    def retrieve(self, collection: Searchable, plan: SearchPlan, *, k: int, where: Where | None = None) -> list[Hit]:
        """The fused list, at least as long as the cross-encoder reads where it will be asked."""
        retrieval = self.settings.retrieval
        wanted = max(k, retrieval.rerank_top) if self.reranks(plan) else k
        return collection.search(
            plan.legs.queries, k=wanted, where=where or None, depth=max(retrieval.depth, wanted), rrf_k=retrieval.rrf_k
        )

    def reranks(self, plan: SearchPlan) -> bool:
        """Whether the cross-encoder will be asked: `auto` only where a stand-alone question is known."""
        how = self.settings.retrieval.rerank
        return self._reranker is not None and (how == "always" or (how == "auto" and bool(plan.legs.rerank_question)))

    def rerank(self, plan: SearchPlan, hits: list[Hit]) -> list[Hit]:
        """`hits` with the top reordered by the cross-encoder, within its time budget."""
        retrieval = self.settings.retrieval
        if self._reranker is None or not hits:
            return hits
        question = plan.legs.rerank_question or plan.question
        belief = 0.0 if plan.rewrite.decision == "rewrite" else plan.rewrite.needs_history or 0.0
        return self._reranker.rerank(
            question,
            hits,
            seconds=retrieval.rerank_seconds,
            top=retrieval.rerank_top,
            weight=math.exp(retrieval.rerank_leaning * belief),
        )

    def find(
        self,
        question: str,
        *,
        collection: str,
        conversation: Conversation = Conversation(),  # noqa: B008  (frozen)
        k: int = 20,
        where: Where | None = None,
        search_for: str | None = None,
    ) -> Found:
        """Everything at once, for batch commands and the search endpoint: the best `k` hits."""
        seconds: dict[str, float] = {}
        started = time.perf_counter()
        searched = self.collection(collection)
        rewrite = Rewrite(question, "keep") if search_for else self.rewriter.rewrite(conversation, question)
        plan = self.plan(question, conversation, rewrite, search_for)
        seconds["rewrite"] = time.perf_counter() - started
        started = time.perf_counter()
        hits = self.retrieve(searched, plan, k=k, where=where)
        seconds["search"] = time.perf_counter() - started
        reranked = self.reranks(plan) and bool(hits)
        if reranked:
            started = time.perf_counter()
            hits = self.rerank(plan, hits)
            seconds["rerank"] = time.perf_counter() - started
        return Found(plan, hits[:k], reranked, seconds)

    def _legs(self, conversation: Conversation, question: str, rewrite: Rewrite) -> Legs:
        return build_legs(conversation, question, rewrite, self.settings.retrieval.legs)
