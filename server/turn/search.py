"""The searching half of a turn: rewrite, build query variants, search, fuse, rerank.

The same code, with the same time limits, serves a chat turn, `/v1/search` and the batch commands, so that what is
measured is what is served. The caller handles the hits.

No form of a follow-up is right everywhere: alone it may say nothing, with its history it may drag the last topic along.
Fusing several variants settles most of that, and the typed question's own clarity settles more. The weights come from
the retrieval profile (`docs/lab/retrieval.md`).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from index.documents import Document, Hit, Query, Where
from index.errors import IndexingError
from rewriter.protocol import AsyncRewriter, Conversation, Message, Rewrite, Rewriter
from rewriter.served import ServedRewriter
from server.settings import Settings
from server.settings.profile import RetrievalProfile, VariantWeights
from server.turn.events import (
    BLOCKING_SECONDS,
    Evidence,
    QueryVariant,
    RewriteEvent,
    Stopwatch,
    TurnFailed,
    run_blocking,
    within,
)
from server.turn.evidence import SentencePlace, readable, sentence_chances
from server.turn.support import SupportScorer
from server.turn.system_messages import BackReply, passed_over, understood
from text.prompts import QuestionContext
from text.recorder import current

if TYPE_CHECKING:
    from index.encoders import Vectors
    from index.rerank import Reranker


log = logging.getLogger(__name__)

READING_SECONDS = BLOCKING_SECONDS / 3
"""Longest wait for a cross-encoder that does not keep to its time; a turn asks it twice at most."""

UNREADABLE_SHARE = 1 / 6
"""Share of `rerank_weight` that the packaged cross-encoder keeps for letters it never learnt."""


EDITED = "edited"
"""The decision shown where a person wrote the search text."""

REPLY = "reply"
"""The decision shown where a message answers a question back."""

HISTORY_CHARS = 8000
"""Longest history of the `conversation` variant, in characters, the newest kept."""


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

    def question_vector(self, text: str, encoder: str) -> Vectors | None:
        """The vector that a question is searched by; None unless it is one of the encoder of this name."""


@dataclass(frozen=True, slots=True)
class QueryVariants:
    """The queries of one search, and the stand-alone question that a cross-encoder may rank by.

    `rerank_question` is None where no stand-alone question is known: then reranking would do harm.
    """

    queries: tuple[Query, ...]
    rerank_question: str | None

    @property
    def shown(self) -> tuple[Query, ...]:
        """The queries that look for passages, and not only for the document that is spoken of."""
        return tuple(query for query in self.queries if not query.document_prior_weight)


def build_variants(
    conversation: Conversation, question: str, rewrite: Rewrite, profile: RetrievalProfile
) -> QueryVariants:
    """Build the query variants of a question: as typed, rewritten or expanded, and with parts of its history.

    A question that needs no history, first in its conversation, has one variant. A rewrite's weight follows its
    confidence. A sentence written from added words (`rewrite.expansion`) is for people and for the model that answers;
    the words themselves are searched and reranked, since they err less.
    """
    if not conversation and (rewrite.decision != "rewrite" or rewrite.text == question):
        return QueryVariants((Query(question, "typed"),), question)
    weights, needed = profile.variants, rewrite.history_probability
    queries = [_query("typed", question, weights.typed, clarity=profile.clarity)]
    standalone: str | None = None
    if rewrite.expansion or rewrite.decision == "expand" or (rewrite.decision == "keep" and needed is not None):
        standalone = rewrite.text
        text = _joined(question, added_words(rewrite)) if rewrite.decision == "rewrite" else rewrite.text
        queries.append(_query("expanded", text, weights.expanded))
    elif rewrite.decision == "rewrite" or (rewrite.decision == "keep" and rewrite.confidence is not None):
        standalone = rewrite.text
        share = 1.0 if rewrite.confidence is None else rewrite.confidence
        queries.append(_query("rewritten", rewrite.text, weights.rewritten, share))
    if conversation:
        queries += _history_variants(conversation, question, profile, needed)
    return QueryVariants(tuple(query for query in queries if query.lexical > 0 or query.dense > 0), standalone)


def added_words(rewrite: Rewrite) -> str:
    """Return the words that the rewriter adds to the question."""
    return " ".join(term.text for term in rewrite.expansion)


def _history_variants(
    conversation: Conversation, question: str, profile: RetrievalProfile, needed: float | None
) -> Iterator[Query]:
    weights = profile.variants
    last_question, answered = conversation.last_exchange()
    users = [turn.text for turn in conversation.messages if turn.role == "user"]
    newest_first = " ".join(turn.text for turn in reversed(conversation.messages))
    everything = _joined(question, newest_first[:HISTORY_CHARS])
    yield _query("exchange", _joined(question, last_question, answered), weights.exchange)
    yield _query("opening", _joined(*users[:1], question), weights.opening)
    yield _query("conversation", everything, weights.conversation)
    if profile.document_prior > 0:
        exponent = 0.0 if needed is None else profile.document_prior_exponent * (needed - 0.5)
        prior = profile.document_prior * math.exp(exponent)
        yield Query(_joined(last_question, answered), "said", document_prior_weight=prior)
        yield Query(everything, "spoken of", document_prior_weight=prior)


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _query(name: str, text: str, weights: VariantWeights, share: float = 1.0, *, clarity: float = 0.0) -> Query:
    return Query(text, name, lexical=share * weights.lexical, dense=share * weights.dense, confidence=clarity)


PAGE_VARIANT = "page"
"""Names the query that finds passages of the page that is read."""

LEANS = 0.5
"""From this probability on a question is taken to lean on more than its words."""


@dataclass(frozen=True, slots=True)
class ReadPage:
    """The page that whoever asks is reading: its passages are favoured, and its words say what a question leans on.

    `words` are its title and heading; its passages are those of the first filter of `within` that fits any;
    `address` is for those who count what is read. A query beside the others finds these passages alone: a prior, whose
    weight is small enough that a question about something else finds that (`benchmarks/bench_page.py`). The words are
    context for what reads the question, and not searched with: on another page they would lead astray.
    """

    words: str = ""
    within: tuple[Where, ...] = ()
    address: str = ""

    @property
    def as_history(self) -> Conversation:
        """The words as what was said before a first question."""
        return Conversation((Message("user", self.words),) if self.words else ())

    def queries(
        self, question: str, needed: float | None, others: Sequence[Query], profile: RetrievalProfile
    ) -> tuple[Query, ...]:
        """Return the query that favours the page; none where nothing is known of it.

        Its weight is a share of what `others` weigh, and grows with the probability that the question leans on more
        than its words.
        """
        share = profile.page * math.exp(profile.page_exponent * ((LEANS if needed is None else needed) - LEANS))
        weight = share * sum(query.lexical + query.dense for query in others if not query.document_prior_weight) / 2
        if not self.within or weight <= 0:
            return ()
        return (Query(question, PAGE_VARIANT, lexical=weight, dense=weight, within=self.within),)


NO_PAGE = ReadPage()


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
    reply: BackReply | None = None
    """The reply to a question back that was resolved into `question`."""
    about: str = ""
    """Words of the page that is read, where the question leans on more than its words."""

    @property
    def asked(self) -> str:
        """The question that `context` goes with."""
        written = (self.rewrite.decision == "rewrite" or self.decision == EDITED) and not self.rewrite.expansion
        return self.variants.rerank_question or self.question if written else self.question

    @property
    def item(self) -> str:
        """The item of a list that the question names ("the second one"), as written there; empty if it names none."""
        terms = self.rewrite.expansion
        return terms[0].text if len(terms) == 1 and terms[0].score == 1 else ""

    @property
    def meaning(self) -> str:
        """The question in full, as far as a sentence is known that says it."""
        if self.reply is not None:
            return self.reply.text
        return self.question if self.rewrite.decision == "expand" else self.variants.rerank_question or self.question

    @property
    def matching(self) -> str:
        """The text to match sentences with: the question in full, or else together with the user turn before it."""
        if self.reply is not None:
            return self.reply.text
        text = self.variants.rerank_question or _joined(self.context.asked, self.question)
        return _joined(self.about, text) if text == self.question else text

    def follows_doubt(self, conversation: Conversation) -> bool:
        """Return whether the question leans on an answer that was told with a doubt, which is no part of the search."""
        said = conversation.messages
        return bool(said) and said[-1].role == "user" and (self.rewrite.history_probability or 0) >= LEANS

    def replying(self, reply: BackReply) -> SearchPlan:
        """Return the plan with the choice, or the question with what was said, as a query of its own."""
        text = reply.about if reply.chosen else reply.text
        added = (Query(text, "reply"),) if text != self.question else ()
        variants = replace(self.variants, queries=(*self.variants.queries, *added))
        return replace(self, decision=REPLY, reply=reply, variants=variants)

    def reading(self, page: ReadPage, needed: float | None, profile: RetrievalProfile) -> SearchPlan:
        """Return the plan of whoever reads a page and asks a question that leans with the probability `needed`."""
        queries, context = self.variants.queries, self.context
        about = page.words if needed is not None and needed >= LEANS else ""
        if about and not context.asked:
            context = replace(context, words=f"{context.words} {about}".strip())
        added = page.queries(self.question, needed, queries, profile)
        variants = replace(self.variants, queries=(*queries, *added))
        return replace(self, variants=variants, about=about, context=context)

    def event(self) -> RewriteEvent:
        """The plan as people see it."""
        rewrite, reply = self.rewrite, self.reply
        return RewriteEvent(
            question=reply.typed if reply else self.question,
            text=reply.text if reply else rewrite.text,
            decision=self.decision,
            confidence=rewrite.confidence,
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
        """Build the query variants of a question. A `search_for` written by a person replaces the rewrite.

        One that is the question itself asks it as a new one: the conversation has no part in the search.
        """
        profile, name = self.settings.retrieval.profile, self.rewriter.name
        if text := (search_for or "").strip():
            edited = Rewrite(text, "rewrite" if text != question else "keep", confidence=1.0)
            before = conversation if text != question else Conversation()
            queries = build_variants(before, question, edited, profile).queries
            return SearchPlan(question, edited, EDITED, QueryVariants(queries, text), name)
        variants = build_variants(conversation, question, rewrite, profile)
        context = QuestionContext()
        if rewrite.decision != "rewrite" or rewrite.expansion:
            context = QuestionContext(added_words(rewrite), *conversation.last_exchange())
        return SearchPlan(question, rewrite, rewrite.decision, variants, name, context=context)

    def as_new(self, plan: SearchPlan) -> SearchPlan | None:
        """Return the plan of the question as a new one; None where it is one, or where a person chose its search.

        A follow-up that nothing is near is searched so, too, and stays so where that reads no worse and answers.
        """
        if plan.context == QuestionContext() or plan.reply is not None or plan.decision == EDITED:
            return None
        return self.plan(plan.question, Conversation(), self.rewriter.rewrite(Conversation(), plan.question))

    async def planned(
        self,
        question: str,
        conversation: Conversation,
        search_for: str | None,
        watch: Stopwatch,
        *,
        page: ReadPage = NO_PAGE,
        opening: asyncio.Future[Searchable] | None = None,
        blocking: bool = False,
    ) -> SearchPlan:
        """Rewrite a question within the profile's time limit, else take it as typed, and build its query variants.

        A reply to a question back is searched as the question that it resolves to, with the history before that; what
        is no reply without the question back. Whether a first question leans on the `page` that is read, the rewriter
        tells; its words are not added. While a served model writes the question in full, the other variants are
        searched in the collection that `opening` opens.
        """
        limit, edited = self.settings.retrieval.profile.rewrite_seconds, bool((search_for or "").strip())
        reply = None if edited else understood(conversation, question)
        asks, before = reply.asked if reply else (question, passed_over(conversation))
        with watch.begin("rewrite") as step:
            rewrite = Rewrite(asks, "keep")
            if not edited:
                said = before or page.as_history
                quick = self.rewriter.first if isinstance(self.rewriter, ServedRewriter) else self.rewriter
                rewrite = await rewrite_within(limit, quick, said.as_heard(), asks, blocking=blocking)
            needed = rewrite.history_probability
            if not before and page.words and (rewrite.decision == "expand" or rewrite.expansion):
                rewrite = replace(rewrite, text=asks, decision="keep", expansion=())
            plan = self.plan(asks, before, rewrite, search_for)
            if reply is not None:
                plan = plan.replying(reply)
            elif not edited:
                plan = await self._in_full(plan, before, opening, blocking=blocking)
                rewrite = plan.rewrite
            plan = plan.reading(page, needed, self.settings.retrieval.profile)
            told = {field.name: getattr(rewrite, field.name) for field in fields(rewrite) if field.name != "seconds"}
            doubted = {"heard": conversation.heard} if conversation.heard else {}
            step.tell(
                {"question": question, "history": conversation.messages, **doubted},
                {**told, "variants": [query.text for query in plan.variants.queries]},
                {"rewriter": plan.rewriter, "decision": plan.decision, "variants": len(plan.variants.queries)},
            )
        return replace(plan, seconds=watch.of("rewrite"))

    async def _in_full(
        self,
        plan: SearchPlan,
        conversation: Conversation,
        opening: asyncio.Future[Searchable] | None,
        *,
        blocking: bool,
    ) -> SearchPlan:
        """Return the plan of the sentence that a served model writes in time, or else `plan`."""
        rewriter, question = self.rewriter, plan.question
        if not isinstance(rewriter, ServedRewriter) or not rewriter.writes(conversation, plan.rewrite):
            return plan
        ahead = asyncio.create_task(self._search_ahead(plan, opening)) if opening is not None else None
        try:
            if blocking:
                rewrite = await asyncio.to_thread(rewriter.finish, conversation, question, plan.rewrite)
            else:
                rewrite = await rewriter.afinish(conversation, question, plan.rewrite)
            if ahead is not None:
                await asyncio.wait({ahead})
        finally:
            if ahead is not None:
                ahead.cancel()
        return plan if rewrite is plan.rewrite else self.plan(question, conversation, rewrite)

    async def _search_ahead(self, plan: SearchPlan, opening: asyncio.Future[Searchable]) -> None:
        """Search the variants of a plan, so that their vectors are at hand. The search itself raises errors."""
        with suppress(IndexingError, TurnFailed):
            searched = await asyncio.shield(opening)
            await run_blocking(lambda: searched.search(plan.variants.queries))

    def hits(
        self, searched: Searchable, plan: SearchPlan, watch: Stopwatch, *, k: int, where: Where | None = None
    ) -> tuple[list[Hit], bool]:
        """The best hits, at least `k` where there are as many, and whether they were reranked. Blocks."""
        profile = self.settings.retrieval.profile
        reranks = self.reranks(plan)
        wanted = max(k, profile.rerank_top) if reranks else k
        found = wanted if plan.reply is None else max(wanted, profile.depth)
        options = {"k": found, "depth": max(profile.depth, wanted), "rrf_k": profile.rrf_k}
        with watch.begin("search") as step:
            queries = plan.variants.queries
            hits = searched.search(queries, where=where or None, **options)
            labels: dict[str, str | float] = {"hits": len(hits), "version": searched.version}
            step.tell({"queries": queries, **options, "where": where}, _traced(hits), labels)
        if plan.reply is not None:
            hits = plan.reply.preferred(hits)[:wanted]
        if not reranks or not hits or self.reranker is None:
            return hits, False
        inputs = self.reading(plan, self.reranker)
        alone = [hit.passage.id for hit in hits if _first_as_typed(hit)] if inputs["context"] is not None else []
        with watch.begin("rerank") as step:
            ordered = self._read_by(self.reranker, hits=hits, alone=alone, **inputs)
            step.tell(inputs, _traced(ordered or hits), {"hits": len(hits)})
            if ordered is None:
                step.fail("rerank_timeout", "The cross-encoder took too long: the list keeps its own order.")
        return ordered or hits, ordered is not None

    def reading(self, plan: SearchPlan, reranker: Reranker) -> dict[str, Any]:
        """Return the input of the cross-encoder besides the hits: the question and its context."""
        reads, profile = reranker.reads_conversations, self.settings.retrieval.profile
        share = UNREADABLE_SHARE if reads and not readable(plan.question) else 1.0
        return {
            "question": plan.asked if reads else plan.variants.rerank_question or plan.question,
            "weight": share * profile.rerank_weight,
            "top": profile.rerank_top,
            "context": plan.context if reads else None,
        }

    def sentence_chances(
        self, plan: SearchPlan, passages: Sequence[Evidence], hits: Sequence[Hit], scorer: SupportScorer
    ) -> dict[SentencePlace, float]:
        """Return how likely each sentence of the evidence is the one that answers, by what the cross-encoder read.

        `hits` are those of the evidence; one that it has not read yet is read now. Empty where the cross-encoder shows
        no states of what it reads.
        """
        with current().begin("sentences", "server.turn.search:sentence_chances") as this:
            this.inputs(question=plan.asked, matching=plan.matching, passages=[one.passage_id for one in passages])
            found = {hit.passage.id: hit for hit in hits}
            unread = [found[one.passage_id] for one in passages if found[one.passage_id].tokens is None]
            reader = self.reranker.reader if self.reranker is not None and self.reranks(plan) else None
            if unread and reader is not None:
                inputs = {**self.reading(plan, reader), "top": len(unread)}
                again = self._read_by(reader, hits=unread, **inputs) or []
                found.update((hit.passage.id, replace(hit, score=found[hit.passage.id].score)) for hit in again)
            by_number = {one.n: found[one.passage_id] for one in passages}
            told = sentence_chances(plan.matching, passages, by_number, scorer)
            this.output({"result": [[*place, round(chance, 4)] for place, chance in told.items()]})
        return told

    def _read_by(self, reranker: Reranker, **inputs: Any) -> list[Hit] | None:
        """Rerank a list with a cross-encoder; None where it does not come to an end in time."""
        seconds = self.settings.retrieval.profile.rerank_seconds
        try:
            return within(max(seconds, READING_SECONDS), partial(reranker.rerank, seconds=seconds, **inputs))
        except TimeoutError:
            log.warning("The cross-encoder %s took too long: the list keeps its own order.", reranker.name)
            return None

    def reranks(self, plan: SearchPlan) -> bool:
        """Whether the cross-encoder will be asked: `auto` only where a stand-alone question is known, or where it reads
        conversations."""
        retrieval = self.settings.retrieval
        if self.reranker is None or retrieval.rerank == "never" or not retrieval.profile.rerank_top:
            return False
        return bool(plan.variants.rerank_question) or self.reranker.reads_conversations or retrieval.rerank == "always"

    async def search(
        self,
        question: str,
        *,
        collection: str,
        conversation: Conversation = Conversation(),  # noqa: B008  (frozen)
        k: int = 20,
        where: Where | None = None,
        search_for: str | None = None,
        page: ReadPage = NO_PAGE,
        blocking: bool = False,
    ) -> Found:
        """Everything at once: the best `k` hits. Raises IndexingError, and TurnFailed where it takes too long."""
        watch = Stopwatch()
        opening = asyncio.create_task(run_blocking(lambda: self.collection(collection)))
        searched = await opening
        plan = await self.planned(
            question, conversation, search_for, watch, page=page, opening=opening, blocking=blocking
        )
        hits, reranked = await run_blocking(
            lambda: self.hits(searched, plan, watch, k=k, where=where), lambda: watch.running
        )
        seconds = {name: watch.of(name) for name in ("rewrite", "search", *(["rerank"] if reranked else []))}
        return Found(plan, hits[:k], reranked, seconds)

    def find(self, question: str, **options: Any) -> Found:
        """`search` for batch commands: blocks, and is called where no event loop runs."""
        return asyncio.run(self.search(question, blocking=True, **options))


def _first_as_typed(hit: Hit) -> bool:
    """Whether the question as typed finds it first by words and by meaning: then it may need no conversation."""
    return hit.ranks.get("typed/bm25") == 1 == hit.ranks.get("typed/dense")


def _traced(hits: Sequence[Hit]) -> Mapping[str, object]:
    def row(hit: Hit) -> dict[str, object]:
        passage = hit.passage
        values = {"score": hit.score, "ranks": hit.ranks, "relevance": hit.relevance}
        return {"id": passage.id, "document_id": passage.document_id, **values}

    return {"passages": [row(hit) for hit in hits]}
