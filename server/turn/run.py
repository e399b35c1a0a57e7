"""Run one turn: plan, retrieve, select, answer, check. Read this file first.

`TurnEngine.run` is the whole path from a question to `done`, as one stream of typed events. Each step is a method of
`Turn`; the modules beside this one implement them:

1. plan: rewrite the question and build its query variants (`search`)
2. retrieve: BM25 and dense search, fusion, reranking (`search`)
3. select: number the evidence and cut it to the model's budget (`decision`, `evidence`, `models`)
4. answer: stream the model's reply, or quote sentences (`models`, `answer`, `reply`)
5. check: replace a refusal, warn about an unsupported answer (`support`, `reply`)

The engine keeps nothing between turns. Conversations, traces and queues belong to the caller.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from typing import TypeAlias

from index.documents import Hit, Where
from index.errors import IndexingError
from rewriter.protocol import Conversation
from server.engines.base import EngineError
from server.settings import Settings
from server.turn.answer import answers_to_others
from server.turn.decision import (
    FAR,
    QuestionPart,
    best_relevance,
    chances,
    conversation_before,
    covered,
    decide,
    is_bare_complaint,
    language_of_hits,
    merge_part_events,
    split_question,
)
from server.turn.events import Event, EvidenceEvent, Stopwatch, TurnFailed, run_blocking
from server.turn.evidence import LIKELY, TOLD, read_further, select_evidence, with_quoted
from server.turn.models import NO_HOUSE, ModelSource, TurnModels, TurnPrompt, build_prompt, evidence_budget, excerpts
from server.turn.reply import Reply, Selection, WrittenAnswer
from server.turn.search import EDITED, NO_PAGE, ReadPage, Searchable, SearchPlan, TurnSearch
from server.turn.system_messages import (
    asked_back,
    question_back,
    smalltalk_reply,
    unsupported_language_notice,
    without_addition,
)
from text.recorder import current

CANDIDATES = 3
"""Tokens of the evidence, as a multiple of the tokens that a model reads of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnInput:
    """Name a question and the collection that is searched for its answer.

    `search_for` is a search text written by a person and replaces the rewrite. `page` is what whoever
    asks reads. What a plugin replies goes on from a turn that is `kept`. `group` owns the turn: nothing that a
    model server remembers is shared with other groups. `split_questions` overrides `answer.split_questions`.
    """

    question: str
    collection: str
    conversation: Conversation = field(default_factory=Conversation)
    search_for: str | None = None
    where: Where | None = None
    page: ReadPage = NO_PAGE
    turn_id: str = ""
    conversation_id: str | None = None
    answer_tokens: int | None = None
    group: str = ""
    split_questions: bool | None = None
    kept: bool = True


Answerer: TypeAlias = Callable[[TurnInput, SearchPlan, Searchable, TurnModels], WrittenAnswer | None]
"""Finds the answer that a person wrote ahead; blocks."""

Replier: TypeAlias = Callable[[str], str]
"""Returns the reply to a message that needs no search; empty to any other."""


class TurnEngine:
    """Answer questions over collections; one engine serves any number of turns at once.

    `collection` opens a collection by name. `models` is asked for the models of each turn. `answerers` are asked before
    anything is searched, and `replies`, to messages that need no search, before all.
    """

    def __init__(
        self,
        *,
        collection: Callable[[str], Searchable],
        models: ModelSource,
        settings: Settings,
        answerers: Sequence[Answerer] = (),
        replies: Sequence[Replier] = (),
    ) -> None:
        self._collection = collection
        self._models = models
        self._settings = settings
        self._answerers = answerers
        self._replies = (smalltalk_reply, *replies)

    async def search(self, group: str = "") -> TurnSearch:
        """Return the searching half, with the models that a turn of `group` would use now."""
        return self._search(await self._models.of_search(group))

    def _search(self, models: TurnModels) -> TurnSearch:
        return TurnSearch(
            collection=self._collection,
            rewriter=models.rewriter,
            settings=self._settings,
            reranker=models.reranker,
        )

    def prompted(self, prompt: TurnPrompt) -> TurnPrompt:
        """Return the prompt that is sent; a replay overrides this."""
        return prompt

    async def run(self, request: TurnInput, *, numbers: dict[str, int] | None = None) -> AsyncGenerator[Event, None]:
        """Yield the events of one turn, ending with exactly one `done` or `error`.

        `numbers` makes the turn a part of another one: its evidence is numbered as known there by passage id, and it
        neither asks back nor splits. Closing the iterator, or cancelling the task that reads it, stops the model's
        request at once.
        """
        models = await self._models.of_turn(request.answer_tokens, request.group)
        current().label(engine=models.name, style=models.style)
        if models.reranker is not None:
            current().label(reranker=models.reranker.name, reads_conversations=models.reranker.reads_conversations)
        turn = Turn(self._settings, request, models, self._search(models), numbers)
        replies = self._replies if request.kept else (smalltalk_reply,)
        texts = () if request.search_for else (reply(request.question) for reply in replies)
        if text := next(filter(None, texts), ""):
            for event in turn.reply.smalltalk(text):
                yield event
            return
        try:
            plan = await turn.plan()
            if (written := await turn.written(plan, self._answerers)) is not None:
                for event in (plan.event(), *turn.reply.written(written)):
                    yield event
                return
            parts = await turn.split(plan)
            if parts:
                async with aclosing(self._run_parts(turn, plan, parts)) as merged:
                    async for event in merged:
                        yield event
                return
            yield plan.event()
            # One call in one thread: each change of threads delays the first token.
            selection = await run_blocking(lambda: turn.select(plan, *turn.retrieve(plan)), lambda: turn.watch.running)
            if selection.plan is not plan:
                plan = selection.plan
                yield plan.event()
            yield EvidenceEvent(
                passages=list(selection.passages),
                reranked=selection.reranked,
                seconds=turn.watch.of("search", "rerank"),
            )
            if selection.prompt is None or models.chat_model is None:
                for event in turn.reply.extractive(plan, selection):
                    yield event
                return
            for event in turn.reply.first_quotes(selection):
                yield event
            answer = turn.reply.stream(models.chat_model, self.prompted(selection.prompt))
            async with aclosing(answer):
                async for event in answer:
                    yield event
            for event in await turn.reply.check(plan, selection):
                yield event
        except (TurnFailed, IndexingError, EngineError) as failure:
            yield turn.reply.failure(failure)
        finally:
            turn.close()

    def _run_parts(self, turn: Turn, plan: SearchPlan, parts: tuple[QuestionPart, ...]) -> AsyncGenerator[Event, None]:
        """Run each part of a question as a turn of its own and merge their events."""
        numbers = dict[str, int]()
        runs = [
            self.run(
                replace(
                    turn.request,
                    question=part.text,
                    conversation=conversation_before(turn.request.conversation, plan, parts[0], part),
                    turn_id=turn.turn_id,
                    split_questions=False,
                ),
                numbers=numbers,
            )
            for part in parts
        ]
        return merge_part_events(plan, parts, runs, turn.watch)


class Turn:
    """The steps of one turn and what they share: the request, the models, the clock and the reply."""

    def __init__(
        self,
        settings: Settings,
        request: TurnInput,
        models: TurnModels,
        search: TurnSearch,
        numbers: dict[str, int] | None,
    ) -> None:
        house = settings.answer.house.get(request.collection, NO_HOUSE)
        # A part that is refused is no refusal of the whole.
        self.house = house if numbers is None else house.model_copy(update={"refusal": ""})
        self.request = replace(request, conversation=without_addition(request.conversation, house.refusal))
        self.watch = Stopwatch()
        self.turn_id = request.turn_id or uuid.uuid4().hex
        ids = (self.turn_id, request.conversation_id)
        self.reply = Reply(settings, request.question, models, self.watch, ids, self.house)
        self.reply.said = answers_to_others(self.request.conversation, request.question)
        self.reply.behind_doubt = bool(self.request.conversation.heard)
        self._settings = settings
        self._models = models
        self._search = search
        self._numbers = numbers
        self._hits: tuple[list[Hit], bool] | None = None
        self._opening: asyncio.Task[Searchable] | None = None
        self._searched: Searchable

    async def plan(self) -> SearchPlan:
        """Rewrite the question and build its query variants. Open the collection meanwhile."""
        request, search = self.request, self._search
        self._opening = asyncio.create_task(run_blocking(lambda: search.collection(request.collection)))
        plan = await search.planned(
            request.question,
            request.conversation,
            request.search_for,
            self.watch,
            page=request.page,
            opening=self._opening,
        )
        self._searched = await self._opening
        return plan

    async def written(self, plan: SearchPlan, answerers: Sequence[Answerer]) -> WrittenAnswer | None:
        """Return the answer that a person wrote ahead, if one is to this question."""
        if not answerers or self._numbers is not None:
            return None
        request, searched, models = self.request, self._searched, self._models
        with self.watch.begin("written") as step:
            answers = (answerer(request, plan, searched, models) for answerer in answerers)
            answer = await run_blocking(lambda: next(filter(None, answers), None), lambda: "search")
            step.label(written=answer.id if answer else "")
        return answer

    async def split(self, plan: SearchPlan) -> tuple[QuestionPart, ...]:
        """Return the parts to answer one by one; none if one section covers them all, or if splitting is off."""
        request = self.request
        splits = self._settings.answer.split_questions if request.split_questions is None else request.split_questions
        if not splits or self._numbers is not None or request.search_for or plan.reply:
            return ()
        parts = split_question(plan.meaning if plan.decision == "rewrite" else plan.question)
        if not parts:
            return ()
        hits, _ = await run_blocking(lambda: self.retrieve(plan), lambda: self.watch.running)
        if covered(parts, hits):
            return ()
        current().label(split="parts")
        return parts

    def retrieve(self, plan: SearchPlan) -> tuple[list[Hit], bool]:
        """Search with every query variant, fuse and rerank. Return hits, best first, and whether they were reranked.

        Blocks. Finds twice as many as are shown: a passage too long for the budget gives way to a later one.
        """
        if self._hits is None:
            self._hits = self._find(plan)
        return self._hits

    def _find(self, plan: SearchPlan) -> tuple[list[Hit], bool]:
        k = 2 * self._settings.retrieval.evidence
        return self._search.hits(self._searched, plan, self.watch, k=k, where=self.request.where)

    def select(self, plan: SearchPlan, hits: list[Hit], reranked: bool) -> Selection:
        """Number the evidence, decide whether to answer, and build the prompt or find the nearest sentences. Blocks."""
        settings, models, request = self._settings, self._models, self.request
        budget = evidence_budget(request.question, settings.llm, models.style, self.house)
        # More than a model reads: it gets the sentences of these that match the question.
        passages = select_evidence(hits, limit=settings.retrieval.evidence, budget=CANDIDATES * budget)
        language = language_of_hits(hits, settings.index.language)
        odds = chances(plan, hits, language, self._searched)
        # Neither a search text that a person wrote nor the reply to a question back leads to a question back.
        may_ask = plan.decision != EDITED and not asked_back(request.conversation) and self._numbers is None
        complaint = is_bare_complaint(request.question)
        outcome = decide(odds, settings.retrieval.profile, may_ask=may_ask, complaint=complaint)
        far = best_relevance(hits) < FAR
        if outcome == "refuse" and far and self._numbers is None and (new := self._search.as_new(plan)):
            found, read_again = self._find(new)
            answers = decide(chances(new, found, language, self._searched), settings.retrieval.profile) == "answer"
            if read_again and answers and best_relevance(found) >= best_relevance(hits):
                return self.select(new, found, read_again)
        current().label(outcome=outcome, **asdict(odds))
        about = [term.text for term in plan.rewrite.expansion]
        asks = question_back(passages, about) if outcome == "ask" else None
        unanswerable = bool(passages) and outcome == "refuse"
        reply, nearest = self.reply, None
        reply.far = far
        alone = not passages or unanswerable or models.chat_model is None
        read, shown = passages, len(passages)
        if alone or asks or models.style == "short":
            read = read_further(hits, passages) if reranked else passages
            reply.open(read, language, odds)
            searched = self._search if reranked else None
            nearest = [] if unanswerable and reply.far else reply.nearest(plan, read, searched, hits)
        passages, quotes = with_quoted(read, shown, nearest or (), {} if self._numbers is None else self._numbers)
        nearest = None if nearest is None else quotes
        reply.open(passages, language, odds)
        if reply.held >= LIKELY and not complaint:
            asks = None
        unanswerable = unanswerable and reply.held < TOLD and not (nearest and plan.follows_doubt(request.conversation))
        quotes_alone = not passages or unanswerable or models.chat_model is None or asks is not None
        if unanswerable or (nearest == [] and not asks):
            reply.notice = unsupported_language_notice(request.question, settings.index)
        if quotes_alone:
            return Selection(plan, passages, reranked, unanswerable, asks, nearest, None)
        shortened = excerpts(plan.matching, passages, reply.reader.scorer, budget)
        prompt = build_prompt(
            request.question,
            request.conversation,
            passages,
            settings.llm,
            meaning=plan.meaning,
            about=[*about, plan.about] if plan.about else about,
            excerpts=shortened,
            closest=[(quote.n, quote.quote) for quote in nearest or ()],
            style=models.style,
            sufficient=odds.sufficient,
            house=self.house,
        )
        return Selection(plan, passages, reranked, False, None, nearest, prompt, models.style == "short")

    def close(self) -> None:
        """Stop waiting for the collection."""
        if self._opening is not None:
            self._opening.cancel()
