"""A turn from question to `done`: rewrite, search, rerank, evidence, reply, as one stream of typed events.

`TurnEngine` joins what the other modules of this folder do and decides only the order, the time limits and
what becomes of a failure. It keeps nothing between turns: conversations, traces and queues belong to its
caller.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from index.query import Hit, Where
from rewriter.conversation import Conversation
from rewriter.protocol import AsyncRewriter, Rewrite, Rewriter
from server.settings import Settings
from server.turn.answerability import answerability
from server.turn.events import ErrorEvent, Event, EvidenceEvent, Leg, RewriteEvent
from server.turn.evidence import Selection, select_evidence
from server.turn.failures import TurnFailed, in_thread
from server.turn.prompt import evidence_budget
from server.turn.reply import Reply
from server.turn.search import Searchable, SearchPlan, TurnSearch
from server.turn.steps import Recorder, Stopwatch, forget

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from index.rerank import Reranker

CANDIDATES = 3
"""Tokens of the evidence, as a multiple of what a model is shown of it."""


class TurnEngine:
    """Answers questions over collections.

    `collection` opens one by name, `chat_model` gives the model in use or None (then sentences are quoted);
    both are asked anew in every turn. Serves any number of turns at once.
    """

    def __init__(
        self,
        *,
        collection: Callable[[str], Searchable],
        rewriter: Rewriter,
        settings: Settings,
        chat_model: Callable[[], BaseChatModel | None] = lambda: None,
        reranker: Reranker | None = None,
    ) -> None:
        self.search = TurnSearch(collection=collection, rewriter=rewriter, settings=settings, reranker=reranker)
        self._settings = settings
        self._chat_model = chat_model

    async def run(
        self,
        question: str,
        *,
        collection: str,
        conversation: Conversation = Conversation(),  # noqa: B008  (frozen)
        search_for: str | None = None,
        where: Where | None = None,
        turn_id: str = "",
        conversation_id: str | None = None,
        record: Recorder = forget,
    ) -> AsyncGenerator[Event, None]:
        """The events of one turn, ending with exactly one `done` or `error`.

        `search_for` is a search text written by a person: it stands in for the rewrite. Closing the
        iterator, or cancelling the task that reads it, stops the model's request at once. `record` is told
        each finished step.
        """
        turn = _Turn(
            search=self.search,
            settings=self._settings,
            chat_model=self._chat_model(),
            question=question,
            conversation=conversation,
            ids=(turn_id or uuid.uuid4().hex, conversation_id),
            record=record,
        )
        async with aclosing(turn.events(collection, search_for, where)) as events:
            async for event in events:
                yield event


class _Turn:
    """The state of one turn while it runs."""

    def __init__(
        self,
        *,
        search: TurnSearch,
        settings: Settings,
        chat_model: BaseChatModel | None,
        question: str,
        conversation: Conversation,
        ids: tuple[str, str | None],
        record: Recorder,
    ) -> None:
        self._search = search
        self._settings = settings
        self._question = question
        self._conversation = conversation
        self._turn_id, self._conversation_id = ids
        self._watch = Stopwatch(record)
        self._unanswerable = False
        self._reply = Reply(
            question=question,
            conversation=conversation,
            llm=settings.llm,
            chat_model=chat_model,
            ids=ids,
            watch=self._watch,
        )

    async def events(self, collection: str, search_for: str | None, where: Where | None) -> AsyncGenerator[Event, None]:
        """Everything in order; failures become the closing error event."""
        try:
            searched = await in_thread(lambda: self._search.collection(collection), "search")
            plan = await self._plan(search_for)
            yield self._rewrite_event(plan)
            selection, event = await self._find(searched, plan, where)
            yield event
            async with aclosing(self._reply.events(plan, selection, unanswerable=self._unanswerable)) as reply:
                async for said in reply:
                    yield said
        except TurnFailed as failure:
            yield ErrorEvent(
                turn_id=self._turn_id,
                conversation_id=self._conversation_id,
                code=failure.code,
                message=str(failure),
                answer=self._reply.reader.shown,
                seconds=self._watch.all(),
            )

    async def _plan(self, search_for: str | None) -> SearchPlan:
        """The rewrite, or the typed question where the rewriter is too slow."""
        rewriter, limit = self._search.rewriter, self._settings.rewriter.timeout_seconds
        step = self._watch.begin("rewrite")
        if search_for and search_for.strip():
            rewrite = Rewrite(self._question, "keep")
        else:
            try:
                # Half a second more than it has by itself, so that its own account of a timeout is heard.
                async with asyncio.timeout(limit + 0.5):
                    if isinstance(rewriter, AsyncRewriter):
                        rewrite = await rewriter.arewrite(self._conversation, self._question)
                    else:
                        rewrite = await asyncio.to_thread(rewriter.rewrite, self._conversation, self._question)
            except TimeoutError:
                reason = f"The rewriter took longer than {limit:g} s."
                rewrite = Rewrite(self._question, "failed", seconds=step.seconds, reason=reason)
        plan = self._search.plan(self._question, self._conversation, rewrite, search_for)
        step.end(
            {
                "question": self._question,
                "history": [f"{turn.role}: {turn.text}" for turn in self._conversation.messages],
            },
            {"text": plan.rewrite.text, "reason": plan.rewrite.reason, "legs": [leg.text for leg in plan.legs.queries]},
            {"rewriter": rewriter.name, "decision": plan.decision, "legs": len(plan.legs.queries)},
        )
        return plan

    async def _find(
        self, searched: Searchable, plan: SearchPlan, where: Where | None
    ) -> tuple[Selection, EvidenceEvent]:
        retrieval = self._settings.retrieval
        budget = evidence_budget(self._question, self._settings.llm)
        step = self._watch.begin("search")

        def select(found: list[Hit]) -> Selection:
            # More than a model is shown: it reads the sentences of these that speak to the question.
            return select_evidence(
                found, limit=retrieval.evidence, budget=CANDIDATES * budget, document=searched.document
            )

        def search() -> tuple[list[Hit], Selection | None]:
            # Twice what is shown: passages too long for what is left of the budget give way to later ones.
            found = self._search.retrieve(searched, plan, k=2 * retrieval.evidence, where=where)
            # In the same thread where nothing comes between: each change of threads delays the first token.
            return found, None if found and self._search.reranks(plan) else select(found)

        hits, selection = await in_thread(search, "search")
        step.end(
            {"queries": [query.text for query in plan.legs.queries]},
            _hits(hits),
            {"hits": len(hits), "version": searched.version},
        )
        reranked = selection is None
        if selection is None:
            step = self._watch.begin("rerank")
            before = hits
            hits = await in_thread(lambda: self._search.rerank(plan, before), "rerank")
            asked = plan.legs.rerank_question or plan.question
            step.end({"question": asked}, _hits(hits), {"hits": len(hits)})
            selection = await in_thread(lambda: select(hits), "search")
        if retrieval.answerable > 0 and selection.passages:
            self._unanswerable = answerability(plan.meaning, hits) < retrieval.answerable
        seconds = self._watch.of("search", "rerank")
        return selection, EvidenceEvent(passages=list(selection.passages), reranked=reranked, seconds=seconds)

    def _rewrite_event(self, plan: SearchPlan) -> RewriteEvent:
        rewrite = plan.rewrite
        return RewriteEvent(
            question=self._question,
            text=rewrite.text,
            decision=plan.decision,
            confidence=rewrite.confidence,
            alternatives=list(rewrite.alternatives),
            reason=rewrite.reason,
            expansion=[term.text for term in rewrite.expansion],
            needs_history=rewrite.needs_history,
            rewriter=self._search.rewriter.name,
            legs=[Leg(name=q.name, text=q.text, lexical=q.lexical, dense=q.dense) for q in plan.legs.shown],
            seconds=self._watch.of("rewrite"),
        )


def _hits(hits: Sequence[Hit]) -> Mapping[str, object]:
    return {"passages": [{"id": hit.passage.id, "score": hit.score, "ranks": dict(hit.ranks)} for hit in hits]}
