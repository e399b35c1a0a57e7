"""The searching half of a turn: rewrite, query variants, fused search, rerank.

The same code, with the same time limits, serves a chat turn, `/v1/search` and the batch commands, so that what is
measured is what is served. The caller handles the hits; `server.turn.query_variants` decides the variants of a
follow-up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from index.documents import Document
from index.query import Hit, Passage, Query, Where
from rewriter.protocol import AsyncRewriter, Conversation, Rewrite, Rewriter
from server.settings import Settings
from server.turn.events import QueryVariant, RewriteEvent
from server.turn.query_variants import QueryVariants, build_variants, words
from server.turn.steps import BLOCKING_SECONDS, Stopwatch, run_blocking, within
from text.asking import QuestionContext
from text.recorder import recorded

if TYPE_CHECKING:
    from index.rerank import Reranker


log = logging.getLogger(__name__)

READING_SECONDS = BLOCKING_SECONDS / 3
"""Longest wait for a cross-encoder that does not keep to its time; a turn asks it twice at most."""


EDITED = "edited"
"""The decision shown where a person wrote the search text."""


class Searchable(Protocol):
    """Interface of a collection for a turn; `index.collection.Collection` is one."""

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
    """The plan of a search. `decision` is the rewriter's, or `edited`; `seconds` is what planning took."""

    question: str
    rewrite: Rewrite
    decision: str
    variants: QueryVariants
    rewriter: str
    seconds: float = 0.0
    context: QuestionContext = field(default=QuestionContext())
    """What the question leans on; empty for one that a person wrote in full, or a rewriter without any words."""

    @property
    def asked(self) -> str:
        """The question that `context` goes with."""
        written = self.decision in ("rewrite", EDITED) and not self.rewrite.expansion
        return self.variants.rerank_question or self.question if written else self.question

    @property
    def meaning(self) -> str:
        """The question in full, as far as a sentence is known that says it."""
        return self.question if self.rewrite.decision == "expand" else self.variants.rerank_question or self.question

    @property
    def matching(self) -> str:
        """The text to match sentences with: the question in full, or else together with the user turn before it."""
        with_users = next((query.text for query in self.variants.queries if query.name == "users"), self.question)
        return self.variants.rerank_question or with_users

    def event(self) -> RewriteEvent:
        """The plan as people see it."""
        rewrite = self.rewrite
        return RewriteEvent(
            question=self.question,
            text=rewrite.text,
            decision=self.decision,
            confidence=rewrite.confidence,
            alternatives=list(rewrite.alternatives),
            reason=rewrite.reason,
            expansion=[term.text for term in rewrite.expansion],
            history_probability=rewrite.history_probability,
            rewriter=self.rewriter,
            variants=[
                QueryVariant(name=q.name, text=q.text, lexical=q.lexical, dense=q.dense) for q in self.variants.shown
            ],
            seconds=self.seconds,
        )


@dataclass(frozen=True, slots=True)
class Found:
    """Result of one search: hits best first, and seconds by step (`rewrite`, `search`, `rerank`)."""

    plan: SearchPlan
    hits: list[Hit]
    reranked: bool
    seconds: Mapping[str, float]


async def rewrite_within(
    seconds: float, rewriter: Rewriter, conversation: Conversation, question: str, *, blocking: bool = False
) -> Rewrite:
    """The rewrite, or `failed` where it takes longer than `seconds`, and half a second that its own account may take.

    With `blocking` an AsyncRewriter is asked in a thread too: its connections belong to one event loop.
    """
    try:
        async with asyncio.timeout(seconds + 0.5):
            if isinstance(rewriter, AsyncRewriter) and not blocking:
                return await rewriter.arewrite(conversation, question)
            return await asyncio.to_thread(rewriter.rewrite, conversation, question)
    except TimeoutError:
        reason = f"The rewriter took longer than {seconds:g} s."
        return Rewrite(question, "failed", seconds=seconds + 0.5, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSearch:
    """Searches as a turn does. `collection` opens one by name and may raise an IndexingError."""

    collection: Callable[[str], Searchable]
    rewriter: Rewriter
    settings: Settings
    reranker: Reranker | None = None

    def plan(
        self, question: str, conversation: Conversation, rewrite: Rewrite, search_for: str | None = None
    ) -> SearchPlan:
        """Return the query variants of a question. A `search_for` written by a person replaces the rewrite."""
        profile, name = self.settings.retrieval.profile, self.rewriter.name
        if search_for is not None and search_for.strip():
            text = search_for.strip()
            edited = Rewrite(text, "rewrite" if text != question else "keep", confidence=1.0)
            queries = build_variants(conversation, question, edited, profile).queries
            return SearchPlan(question, edited, EDITED, QueryVariants(queries, text), name)
        variants = build_variants(conversation, question, rewrite, profile)
        context = QuestionContext()
        if rewrite.decision != "rewrite" or rewrite.expansion:
            context = QuestionContext(words(rewrite), *conversation.last_exchange())
        return SearchPlan(question, rewrite, rewrite.decision, variants, name, context=context)

    async def planned(
        self,
        question: str,
        conversation: Conversation,
        search_for: str | None,
        watch: Stopwatch,
        *,
        blocking: bool = False,
    ) -> SearchPlan:
        """The plan of a question: rewritten within the time that the settings give it, else as typed."""
        limit = self.settings.retrieval.profile.rewrite_seconds
        with watch.begin("rewrite") as step:
            if search_for and search_for.strip():
                rewrite = Rewrite(question, "keep")
            else:
                rewrite = await rewrite_within(limit, self.rewriter, conversation, question, blocking=blocking)
            plan = self.plan(question, conversation, rewrite, search_for)
            step.tell(
                {"question": question, "history": conversation.messages},
                {
                    **{
                        field.name: getattr(rewrite, field.name) for field in fields(rewrite) if field.name != "seconds"
                    },
                    "variants": [query.text for query in plan.variants.queries],
                },
                {"rewriter": plan.rewriter, "decision": plan.decision, "variants": len(plan.variants.queries)},
            )
        return replace(plan, seconds=watch.of("rewrite"))

    def hits(
        self, searched: Searchable, plan: SearchPlan, watch: Stopwatch, *, k: int, where: Where | None = None
    ) -> tuple[list[Hit], bool]:
        """The best hits, at least `k` where there are as many, and whether they were reranked. Blocks."""
        profile = self.settings.retrieval.profile
        reranks = self.reranks(plan)
        # At least as many as the cross-encoder reads.
        wanted = max(k, profile.rerank_top) if reranks else k
        with watch.begin("search") as step:
            hits = searched.search(
                plan.variants.queries,
                k=wanted,
                where=where or None,
                depth=max(profile.depth, wanted),
                rrf_k=profile.rrf_k,
            )
            step.tell(
                {
                    "queries": plan.variants.queries,
                    "k": wanted,
                    "depth": max(profile.depth, wanted),
                    "rrf_k": profile.rrf_k,
                    "where": where,
                },
                _traced(hits),
                {"hits": len(hits), "version": searched.version},
            )
        if not reranks or not hits or self.reranker is None:
            return hits, False
        inputs = self.reading(plan, self.reranker)
        with watch.begin("rerank") as step:
            ordered = self._reranked(hits=hits, **inputs)
            step.tell(inputs, _traced(ordered or hits), {"hits": len(hits)})
            if ordered is None:
                step.fail("rerank_timeout", "The cross-encoder took too long: the list keeps its own order.")
        return ordered or hits, ordered is not None

    def reading(self, plan: SearchPlan, reranker: Reranker) -> dict[str, Any]:
        """Return the input of the cross-encoder besides the hits: the question and its context."""
        reads, profile = reranker.reads_conversations, self.settings.retrieval.profile
        return {
            "question": plan.asked if reads else plan.variants.rerank_question or plan.question,
            "weight": profile.rerank_weight,
            "top": profile.rerank_top,
            "context": plan.context if reads else None,
        }

    @recorded
    def read(self, question: str, texts: Sequence[str], context: QuestionContext | None = None) -> list[float | None]:
        """Score texts against a question with the cross-encoder, with its context if it does not stand alone; None for
        what it had no time for, or where there is none."""
        if self.reranker is None or self.settings.retrieval.rerank == "never":
            return [None] * len(texts)
        hits = [Hit(Passage(str(n), "", "", text, 0, len(text)), 0.0) for n, text in enumerate(texts)]
        hits_read = self._reranked(question=question, hits=hits, top=len(hits), context=context) or hits
        relevances = {hit.passage.id: hit.relevance for hit in hits_read}
        return [relevances[hit.passage.id] for hit in hits]

    def _reranked(self, **inputs: Any) -> list[Hit] | None:
        """Rerank a list with the cross-encoder; None where it does not come to an end in time."""
        if self.reranker is None:
            return None
        seconds = self.settings.retrieval.profile.rerank_seconds
        try:
            return within(max(seconds, READING_SECONDS), partial(self.reranker.rerank, seconds=seconds, **inputs))
        except TimeoutError:
            log.warning("The cross-encoder %s took too long: the list keeps its own order.", self.reranker.name)
            return None

    def reranks(self, plan: SearchPlan) -> bool:
        """Whether the cross-encoder will be asked: `auto` only where a stand-alone question is known, or where it reads
        conversations."""
        retrieval = self.settings.retrieval
        if self.reranker is None or retrieval.rerank == "never" or not retrieval.profile.rerank_top:
            return False
        readable = bool(plan.variants.rerank_question) or self.reranker.reads_conversations
        return readable or retrieval.rerank == "always"

    async def search(
        self,
        question: str,
        *,
        collection: str,
        conversation: Conversation = Conversation(),  # noqa: B008  (frozen)
        k: int = 20,
        where: Where | None = None,
        search_for: str | None = None,
        blocking: bool = False,
    ) -> Found:
        """Everything at once: the best `k` hits. Raises IndexingError, and TurnFailed where it takes too long."""
        watch = Stopwatch()
        searched = await run_blocking(lambda: self.collection(collection))
        plan = await self.planned(question, conversation, search_for, watch, blocking=blocking)
        hits, reranked = await run_blocking(
            lambda: self.hits(searched, plan, watch, k=k, where=where), lambda: watch.running
        )
        seconds = {name: watch.of(name) for name in ("rewrite", "search", *(["rerank"] if reranked else []))}
        return Found(plan, hits[:k], reranked, seconds)

    def find(
        self,
        question: str,
        *,
        collection: str,
        conversation: Conversation = Conversation(),  # noqa: B008  (frozen)
        k: int = 20,
        search_for: str | None = None,
        where: Where | None = None,
    ) -> Found:
        """`search` for batch commands: blocks, and is called where no event loop runs."""
        return asyncio.run(
            self.search(
                question,
                collection=collection,
                conversation=conversation,
                k=k,
                where=where,
                search_for=search_for,
                blocking=True,
            )
        )


def _traced(hits: Sequence[Hit]) -> Mapping[str, object]:
    return {
        "passages": [
            {
                "id": hit.passage.id,
                "document_id": hit.passage.document_id,
                "score": hit.score,
                "ranks": hit.ranks,
                "relevance": hit.relevance,
            }
            for hit in hits
        ]
    }
