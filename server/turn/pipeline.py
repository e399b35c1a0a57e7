"""A turn from question to `done`: rewrite, search, rerank, evidence, answer, as one stream of typed events.

`TurnEngine` joins what the other modules of this folder do and decides only the order, the time limits and
what becomes of a failure. It keeps nothing between turns: conversations, traces and queues belong to its
caller.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar

from index.errors import CollectionNotFound, IndexingError
from index.query import Hit, Where
from rewriter.conversation import Conversation
from rewriter.protocol import AsyncRewriter, Rewrite, Rewriter
from server.settings import Settings
from server.turn.answer import AnswerReader
from server.turn.answerability import answerability
from server.turn.events import (
    DoneEvent,
    ErrorEvent,
    Event,
    EvidenceEvent,
    Leg,
    NearestEvent,
    Quotation,
    RewriteEvent,
)
from server.turn.evidence import Selection, select_evidence
from server.turn.excerpts import excerpts
from server.turn.extractive import INTRODUCTION, best_sentences
from server.turn.generate import GenerationError, Usage, generate
from server.turn.prompt import build_prompt, evidence_budget
from server.turn.search import Plan, Searchable, TurnSearch
from server.turn.steps import Recorder, Stopwatch, forget
from server.turn.support import Encode, Support
from server.turn.wording import NOTHING_FOUND, UNSUPPORTED, no_answer

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from index.encoders import Encoder
    from index.rerank import Reranker

BLOCKING_SECONDS = 30.0
"""Longest search, and longest rerank, before the turn is given up."""
_CANDIDATES = 3
"""Tokens of the evidence, as a multiple of what a model is shown of it."""

T = TypeVar("T")
P = ParamSpec("P")


class TurnEngine:
    """Answers questions over collections.

    `collection` opens one by name, `chat_model` gives the model in use or None (then sentences are quoted);
    both are asked anew in every turn. With an `encoder` the support of statements is judged by meaning
    too. Serves any number of turns at once.
    """

    def __init__(
        self,
        *,
        collection: Callable[[str], Searchable],
        rewriter: Rewriter,
        settings: Settings,
        chat_model: Callable[[], BaseChatModel | None] = lambda: None,
        reranker: Reranker | None = None,
        encoder: Encoder | None = None,
    ) -> None:
        self.search = TurnSearch(collection=collection, rewriter=rewriter, settings=settings, reranker=reranker)
        self._settings = settings
        self._chat_model = chat_model
        self._encode = encoder.encode if encoder is not None else None

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
            encode=self._encode,
            question=question,
            conversation=conversation,
            ids=(turn_id or uuid.uuid4().hex, conversation_id),
            record=record,
        )
        async with aclosing(turn.events(collection, search_for, where)) as events:
            async for event in events:
                yield event


class _TurnFailed(Exception):
    """Ends a turn with an error event."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Turn:
    """The state of one turn while it runs."""

    def __init__(
        self,
        *,
        search: TurnSearch,
        settings: Settings,
        chat_model: BaseChatModel | None,
        encode: Encode | None,
        question: str,
        conversation: Conversation,
        ids: tuple[str, str | None],
        record: Recorder,
    ) -> None:
        self._search = search
        self._settings = settings
        self._chat_model = chat_model
        self._encode = encode
        self._question = question
        self._conversation = conversation
        self._turn_id, self._conversation_id = ids
        self._watch = Stopwatch(record)
        self._reader = AnswerReader(())
        self._hopeless = False

    async def events(self, collection: str, search_for: str | None, where: Where | None) -> AsyncGenerator[Event, None]:
        """Everything in order; failures become the closing error event."""
        try:
            searched = await self._blocking(lambda: self._search.collection(collection), "search")
            plan = await self._plan(search_for)
            yield self._rewrite_event(plan)
            selection, event = await self._find(searched, plan, where)
            yield event
            async with aclosing(self._answer(plan, selection)) as answer:
                async for said in answer:
                    yield said
        except _TurnFailed as failure:
            yield ErrorEvent(
                turn_id=self._turn_id,
                conversation_id=self._conversation_id,
                code=failure.code,
                message=str(failure),
                answer=self._reader.shown,
                seconds=self._watch.all(),
            )

    async def _plan(self, search_for: str | None) -> Plan:
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
            {"question": self._question, "history": [f"{turn.role}: {turn.text}" for turn in self._conversation.turns]},
            {"text": plan.rewrite.text, "reason": plan.rewrite.reason, "legs": [leg.text for leg in plan.legs.queries]},
            {"rewriter": rewriter.name, "decision": plan.decision, "legs": len(plan.legs.queries)},
        )
        return plan

    async def _find(self, searched: Searchable, plan: Plan, where: Where | None) -> tuple[Selection, EvidenceEvent]:
        retrieval = self._settings.retrieval
        budget = evidence_budget(self._question, self._settings.llm)
        step = self._watch.begin("search")

        def select(found: list[Hit]) -> Selection:
            # More than a model is shown: it reads the sentences of these that speak to the question.
            return select_evidence(
                found, limit=retrieval.evidence, budget=_CANDIDATES * budget, document=searched.document
            )

        def search() -> tuple[list[Hit], Selection | None]:
            # Twice what is shown: passages too long for what is left of the budget give way to later ones.
            found = self._search.retrieve(searched, plan, k=2 * retrieval.evidence, where=where)
            # In the same thread where nothing comes between: each change of threads delays the first token.
            return found, None if found and self._search.reranks(plan) else select(found)

        hits, selection = await self._blocking(search, "search")
        step.end(
            {"queries": [query.text for query in plan.legs.queries]},
            _hits(hits),
            {"hits": len(hits), "version": searched.version},
        )
        reranked = selection is None
        if selection is None:
            step = self._watch.begin("rerank")
            before = hits
            hits = await self._blocking(lambda: self._search.rerank(plan, before), "rerank")
            asked = plan.legs.rerank_question or plan.question
            step.end({"question": asked}, _hits(hits), {"hits": len(hits)})
            selection = await self._blocking(lambda: select(hits), "search")
        if retrieval.answerable > 0 and selection.passages:
            self._hopeless = answerability(plan.meaning, hits) < retrieval.answerable
        seconds = self._watch.of("search", "rerank")
        return selection, EvidenceEvent(passages=list(selection.passages), reranked=reranked, seconds=seconds)

    async def _answer(self, plan: Plan, selection: Selection) -> AsyncGenerator[Event, None]:
        self._reader = AnswerReader(selection.passages, self._encode)
        if not selection.passages:
            for said in self._reader.say(NOTHING_FOUND):
                yield said
            yield self._done("refused", Usage())
        elif self._hopeless:
            async with aclosing(self._refuse(plan, selection, Usage())) as refused:
                async for event in refused:
                    yield event
        elif self._chat_model is None:
            async with aclosing(self._quote(plan, selection)) as quoted:
                async for event in quoted:
                    yield event
        else:
            async with aclosing(self._write(self._chat_model, plan, selection)) as written:
                async for event in written:
                    yield event

    async def _quote(self, plan: Plan, selection: Selection) -> AsyncGenerator[Event, None]:
        """The best sentences, or a refusal."""
        step = self._watch.begin("generate")
        found = await self._nearest(plan, selection)
        self._watch.first_token()
        for event in self._said(INTRODUCTION if found else no_answer(plan, selection), found):
            yield event
        step.end({}, {"answer": self._reader.shown}, {"model": "none", "quotes": len(found)})
        yield self._done("quoted" if found else "refused", Usage())

    async def _refuse(self, plan: Plan, selection: Selection, usage: Usage) -> AsyncGenerator[Event, None]:
        """A refusal, and the sentences that come nearest: small models refuse what the passages do say."""
        found = await self._nearest(plan, selection)
        self._watch.first_token()
        for event in self._said(no_answer(plan, selection, nearest=bool(found)), found):
            yield event
        yield self._done("refused", usage)

    async def _nearest(self, plan: Plan, selection: Selection) -> list[Support]:
        def find() -> list[Support]:
            found = best_sentences(plan.meaning, selection.passages, self._reader.scorer)
            return found or best_sentences(plan.matching, selection.passages, self._reader.scorer)

        return await self._blocking(find, "generate")

    def _said(self, text: str, quotes: Sequence[Support]) -> Iterator[Event]:
        """Words of the server's own, and quotations below them."""
        yield from self._reader.say(text)
        for support in quotes:
            yield from self._reader.quote(support)

    async def _write(self, chat_model: BaseChatModel, plan: Plan, selection: Selection) -> AsyncGenerator[Event, None]:
        """What the model writes, checked; a refusal becomes a sentence of ours."""
        llm, reader = self._settings.llm, self._reader
        budget = evidence_budget(self._question, llm)
        shown = await self._read(excerpts, plan.matching, selection.passages, reader.scorer, budget)
        # A model that is shown less than everything is slow: readers see what is nearest before it has read its part.
        cut = any(shown.get(passage.n) != passage.text for passage in selection.passages)
        if cut and (near := await self._nearest(plan, selection)):
            yield NearestEvent(quotes=[Quotation(**asdict(one)) for one in near])
        prompt = build_prompt(
            self._question,
            self._conversation,
            selection.passages,
            llm,
            meaning=plan.meaning,
            about=[term.text for term in plan.rewrite.expansion],
            excerpts=shown,
        )
        step = self._watch.begin("generate")
        usage, raw = Usage(), ""
        pieces = generate(
            chat_model,
            prompt.messages,
            first_token_seconds=llm.first_token_seconds,
            total_seconds=llm.total_seconds,
        )
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    raw += piece.text
                    usage = usage.plus(piece)
                    for event in await self._read(reader.feed, piece.text):
                        self._watch.first_token()
                        yield event
                    if reader.refused or reader.repeating:
                        break
            for event in await self._read(reader.finish):
                self._watch.first_token()
                yield event
        except GenerationError as error:
            for event in reader.finish(whole=False):
                yield event
            raise _TurnFailed(error.code, str(error)) from error
        finally:
            step.end(
                {"messages": [{"role": message.role, "content": message.text} for message in prompt.messages]},
                {"text": raw, "answer": reader.shown},
                {
                    "prompt_version": prompt.version,
                    "prompt_tokens_expected": prompt.tokens,
                    "prompt_tokens": usage.prompt_tokens,
                    "completion_tokens": usage.completion_tokens,
                },
            )
        if reader.refused or not reader.shown:
            async with aclosing(self._refuse(plan, selection, usage)) as refused:
                async for said in refused:
                    yield said
        else:
            yield self._done("answered", usage)

    async def _read(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Reading is quick unless sentences are encoded, which is then kept off the event loop."""
        if self._encode is None:
            return read(*args, **kwargs)
        return await asyncio.to_thread(read, *args, **kwargs)

    def _rewrite_event(self, plan: Plan) -> RewriteEvent:
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

    def _done(self, status: Literal["answered", "quoted", "refused"], usage: Usage) -> DoneEvent:
        answer = self._reader.answer()
        return DoneEvent(
            turn_id=self._turn_id,
            conversation_id=self._conversation_id,
            status=status,
            answer=answer.text,
            finish_reason="length" if usage.finish_reason == "length" else "stop",
            citations=answer.citations,
            support=answer.support,
            dropped_citations=answer.dropped_citations,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            seconds=self._watch.all(),
            warning=UNSUPPORTED if answer.support and not any(one.supported for one in answer.support) else "",
        )

    async def _blocking(self, call: Callable[[], T], step: str) -> T:
        """`call` in a thread, within a time limit; what the index says of a failure ends the turn."""
        try:
            async with asyncio.timeout(BLOCKING_SECONDS):
                return await asyncio.to_thread(call)
        except TimeoutError as error:
            raise _TurnFailed(
                f"{step}_timeout",
                f"The {step} took longer than {BLOCKING_SECONDS:g} s. Try again when less is going on.",
            ) from error
        except CollectionNotFound as error:
            raise _TurnFailed("collection_not_found", str(error)) from error
        except IndexingError as error:
            raise _TurnFailed(f"{step}_failed", str(error)) from error


def _hits(hits: Sequence[Hit]) -> Mapping[str, object]:
    return {"passages": [{"id": hit.passage.id, "score": hit.score, "ranks": dict(hit.ranks)} for hit in hits]}
