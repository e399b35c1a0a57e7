"""A turn from question to `done`: rewrite, search, rerank, evidence, reply, as one stream of typed events.

`TurnEngine` joins what the other modules of this folder do and decides only the order, the time limits, what becomes
of a failure, and what is said where no model speaks. It keeps nothing between turns: conversations, traces and queues
belong to its caller.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from functools import partial
from typing import Literal

from index.errors import CollectionNotFound, IndexingError
from index.query import Hit, Where
from rewriter.conversation import Conversation
from server.engines.errors import EngineError
from server.recipes.base import POOL, RecipePool, cook
from server.recipes.registry import recipes_of, tools_of
from server.recipes.splitting import QuestionPart
from server.settings import Settings
from server.turn.answer import AnswerReader
from server.turn.decision import Chances, alternatives, asked_back, chances, decide, question_back
from server.turn.events import (
    Alternative,
    DoneEvent,
    ErrorEvent,
    Event,
    EvidenceEvent,
    NearestEvent,
    Quotation,
    RewriteEvent,
)
from server.turn.evidence import READS_IN_CONTEXT, Selection, best_sentences, excerpts, renumbered, select_evidence
from server.turn.generate import GeneratedText, GenerationError, TokenUsage, generate
from server.turn.kinds import AnswerKind, answer_kind
from server.turn.languages import foreign
from server.turn.models import ModelSource, TurnModels
from server.turn.own_words import INTRODUCTION, NEAREST_INSTEAD, NOTHING_FOUND, UNSUPPORTED, courtesy, no_answer
from server.turn.parts import before, joined, parts_for
from server.turn.prompt import TurnPrompt, build_prompt, evidence_budget
from server.turn.search import EDITED, Searchable, SearchPlan, TurnSearch
from server.turn.steps import Stopwatch, TurnFailed, in_thread
from server.turn.support import Support
from text.recorder import current

LONGEST_PASSAGE = 1000
"""Tokens that a passage of a recipe's pool is expected to cost at most."""
CANDIDATES = 3
"""Tokens of the evidence, as a multiple of what a model is shown of it."""


class TurnEngine:
    """Answers questions over collections; serves any number of turns at once.

    `collection` opens one by name, `models` is asked anew in every turn.
    """

    def __init__(
        self,
        *,
        collection: Callable[[str], Searchable],
        models: ModelSource,
        settings: Settings,
    ) -> None:
        self._collection = collection
        self._models = models
        self._settings = settings

    async def search(self, group: str = "") -> TurnSearch:
        """The searching half, with what would work on a turn of `group` that began now."""
        return self._search(await self._models.of_search(group))

    def _search(self, models: TurnModels) -> TurnSearch:
        return TurnSearch(
            collection=self._collection,
            rewriter=models.rewriter,
            settings=self._settings,
            reranker=models.reranker,
        )

    def prompted(self, prompt: TurnPrompt) -> TurnPrompt:
        """What a model is sent: the prompt as it was built."""
        return prompt

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
        answer_tokens: int | None = None,
        group: str = "",
        recipe: str = "",
        known: dict[str, int] | None = None,
    ) -> AsyncGenerator[Event, None]:
        """The events of one turn, ending with exactly one `done` or `error`.

        `recipe` is a way of answering (`answer.recipe`; empty: the settings'). `known` makes it a part of another turn:
        it numbers its evidence as known there by passage id, asks nothing back and is not taken apart.
        `group` is whose the turn is: nothing that is remembered for it is shared with other groups.
        `search_for` is a search text written by a person: it stands in for the rewrite. Closing the
        iterator, or cancelling the task that reads it, stops the model's request at once.
        """
        models = await self._models.of_turn(answer_tokens, group)
        current().label(engine=models.name, style=models.style)
        if models.reranker is not None:
            current().label(reranker=models.reranker.name, reads_conversations=models.reranker.reads_conversations)
        search, watch = self._search(models), Stopwatch()
        ids = turn_id or uuid.uuid4().hex, conversation_id
        turn = _Turn(self._settings, question, conversation, models, watch, ids, known)
        way = recipe or self._settings.answer.recipe
        steps = recipes_of(way)
        if not search_for and (reply := courtesy(question)):
            for event in turn.courteous(reply):
                yield event
            return
        # Beside the rewriting: neither needs the other.
        opened = asyncio.create_task(in_thread(lambda: search.collection(collection)))
        try:
            tools = tools_of(self._settings, models.chat_model, question) if steps else None
            plan = await search.planned(question, conversation, search_for, watch)
            searched = await opened
            parts, hits = tuple[QuestionPart, ...](), None
            if known is None and not search_for:
                parts, hits = await parts_for(
                    way,
                    plan,
                    lambda: in_thread(lambda: turn.hits(search, searched, plan, where), lambda: watch.running),
                    lambda: tools_of(self._settings, models.chat_model, question).asker if models.chat_model else None,
                )
            if parts:
                numbers = dict[str, int]()
                runs = [
                    self.run(
                        part.text,
                        collection=collection,
                        conversation=before(conversation, plan, parts[0], part),
                        where=where,
                        turn_id=ids[0],
                        conversation_id=conversation_id,
                        answer_tokens=answer_tokens,
                        group=group,
                        recipe="plain",
                        known=numbers,
                    )
                    for part in parts
                ]
                async with aclosing(joined(plan, parts, runs, watch)) as told:
                    async for event in told:
                        yield event
                return
            yield plan.event()
            ready = await in_thread(
                lambda: turn.prepared(search, searched, plan, where, hits, wide=bool(steps)), lambda: watch.running
            )
            yield EvidenceEvent(
                passages=list(ready.selection.passages),
                reranked=ready.reranked,
                seconds=watch.of("search", "rerank"),
            )
            if ready.prompt is None or models.chat_model is None:
                for event in turn.unasked(plan, ready):
                    yield event
                return
            if ready.cut and ready.near:
                yield NearestEvent(quotes=[Quotation(**asdict(one)) for one in ready.near])
            pool, prompt = RecipePool(plan.meaning, ready.selection.passages), ready.prompt
            if tools is not None:
                current().label(recipe=way)
                async with aclosing(cook(steps, pool, tools)) as cooking:
                    async for one in cooking:
                        if isinstance(one, RecipePool):
                            pool = one
                        else:
                            yield one
                prompt = await in_thread(lambda: turn.prompt(plan, pool))
            prompt = self.prompted(prompt)
            step, llm, reader = watch.begin("generate"), self._settings.llm, turn.reader
            usage, said, logprobs, spoke = TokenUsage(), list[str](), list[float](), 0.0
            pieces = (
                _said_already(pool.answer)
                if pool.answer
                else generate(
                    models.chat_model,
                    prompt.messages,
                    first_token_seconds=llm.first_token_seconds,
                    total_seconds=llm.total_seconds,
                    step=step,
                    logprobs=self._settings.trace.logprobs,
                )
            )
            try:
                async with aclosing(pieces):
                    async for piece in pieces:
                        said.append(piece.text)
                        spoke = spoke or time.perf_counter()
                        logprobs += piece.logprobs
                        usage = usage.plus(piece)
                        for event in reader.feed(piece.text):
                            watch.first_token()
                            yield event
                        if reader.refused or reader.repeating:
                            break
                for event in reader.finish():
                    watch.first_token()
                    yield event
            except GenerationError as error:
                step.call.fail(error.code, str(error))
                for event in reader.finish(whole=False):
                    yield event
                raise TurnFailed(error.code, str(error)) from error
            finally:
                step.call.prompt((one.role, one.text) for one in (() if pool.answer else prompt.messages))
                if logprobs:
                    step.call.record(mean_logprob=sum(logprobs) / len(logprobs), logprobs=logprobs)
                step.tell(
                    {},
                    {"text": "".join(said), "pieces": [len(piece) for piece in said], "answer": reader.shown},
                    {
                        "finish_reason": usage.finish_reason,
                        "model": models.name,
                        "prompt_version": prompt.version,
                        "prompt_tokens_expected": prompt.tokens,
                        "prompt_tokens": usage.prompt_tokens,
                        "completion_tokens": usage.completion_tokens,
                    },
                )
                step.end()
            if models.pace and spoke:
                models.pace.add(usage.completion_tokens, time.perf_counter() - spoke)
            for event in await turn.ending(plan, ready, usage):
                yield event
        except (TurnFailed, IndexingError, EngineError) as failure:
            yield turn.failed(failure)
        finally:
            opened.cancel()


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What a turn knows before anything is said. `near` is None where nobody has looked yet.

    `alternatives` are there where it asks back. `prompt` is None where no model is asked; `cut` says that it is shown
    less than everything.
    """

    selection: Selection
    reranked: bool
    unanswerable: bool
    alternatives: list[Alternative]
    near: list[Support] | None
    prompt: TurnPrompt | None
    cut: bool


class _Turn:
    """One turn: what was asked, who works on it, and in `reader` what the user has been shown."""

    def __init__(
        self,
        settings: Settings,
        question: str,
        conversation: Conversation,
        models: TurnModels,
        watch: Stopwatch,
        ids: tuple[str, str | None],
        known: dict[str, int] | None,
    ) -> None:
        self._settings = settings
        self._question = question
        self._conversation = conversation
        self._models = models
        self._watch = watch
        self._turn_id, self._conversation_id = ids
        self._known = known
        self._chances: Chances | None = None
        self._texts: list[str] = []
        self._foreign = ""
        """What to say of a question in a language that the search does not understand."""
        self.reader = AnswerReader(())

    def hits(
        self, search: TurnSearch, searched: Searchable, plan: SearchPlan, where: Where | None, *, wide: bool = False
    ) -> tuple[list[Hit], bool]:
        """What is found, and whether it was reranked; `wide` for recipes, which choose themselves. Blocks."""
        # Twice what is shown: passages too long for what is left of the budget give way to later ones.
        k = POOL if wide else 2 * self._settings.retrieval.evidence
        return search.hits(searched, plan, self._watch, k=k, where=where)

    def prepared(
        self,
        search: TurnSearch,
        searched: Searchable,
        plan: SearchPlan,
        where: Where | None,
        found: tuple[list[Hit], bool] | None,
        *,
        wide: bool,
    ) -> _Prepared:
        """Search, rerank, select, cut and stem the evidence and build the prompt. Blocks, and is one call in one
        thread: each change of threads delays the first token."""
        retrieval, llm = self._settings.retrieval, self._settings.llm
        budget = evidence_budget(self._question, llm, self._models.style)
        hits, reranked = found or self.hits(search, searched, plan, where, wide=wide)
        # More than a model is shown: it reads the sentences of these that speak to the question.
        selection = select_evidence(
            hits,
            limit=POOL if wide else retrieval.evidence,
            budget=POOL * LONGEST_PASSAGE if wide else CANDIDATES * budget,
            document=searched.document,
        )
        if self._known is not None:
            selection = renumbered(selection, self._known)
        passages = selection.passages
        self._texts = [passage.text for passage in passages]
        self._chances = chances(plan, hits)
        # Words that a person chose for the search, or said when asked back, are not asked about.
        may_ask = plan.decision != EDITED and not asked_back(self._conversation) and self._known is None
        outcome = decide(self._chances, retrieval, may_ask=may_ask)
        current().label(outcome=outcome, **asdict(self._chances))
        meant = alternatives(passages) if outcome == "ask" else []
        unanswerable = bool(passages) and outcome == "refuse"
        self.reader = AnswerReader(passages)
        if not passages or unanswerable or meant or self._models.chat_model is None:
            reads = self._models.chat_model is None and search.reranks(plan)
            near = [] if meant else self._nearest(plan, selection, search if reads else None)
            if unanswerable or not (near or meant):
                self._foreign = foreign(self._question, self._settings.index)
            return _Prepared(selection, reranked, unanswerable, meant, near, None, cut=False)
        shown = excerpts(plan.matching, passages, self.reader.scorer, budget)
        prompt = self.prompt(plan, RecipePool(plan.meaning, passages), shown)
        # A model that is shown less than everything is slow: readers see what is nearest before it has read its part.
        cut = any(shown.get(passage.n) != passage.text for passage in passages)
        return _Prepared(selection, reranked, False, [], self._nearest(plan, selection) if cut else None, prompt, cut)

    def prompt(self, plan: SearchPlan, pool: RecipePool, shown: Mapping[int, str] | None = None) -> TurnPrompt:
        """The request for an answer from what is left in the pool; `shown` is what of it is read. Blocks."""
        style = self._models.style
        budget = evidence_budget(self._question, self._settings.llm, style)
        return build_prompt(
            self._question,
            self._conversation,
            pool.passages,
            self._settings.llm,
            meaning=plan.meaning,
            about=[term.text for term in plan.rewrite.expansion],
            excerpts=shown or excerpts(plan.matching, pool.passages, self.reader.scorer, budget),
            examples=[(one.question, one.excerpt, one.answer) for one in pool.examples],
            style=style,
        )

    def courteous(self, reply: str) -> list[Event]:
        """The whole turn of a message that asks for nothing: neither searched nor read by a model."""
        unchanged = RewriteEvent(
            question=self._question, text=self._question, decision="keep", rewriter="", legs=[], seconds=0
        )
        nothing = EvidenceEvent(passages=[], reranked=False, seconds=0)
        self._watch.first_token()
        return [unchanged, nothing, *self.reader.say(reply), self._done("answered", TokenUsage())]

    def unasked(self, plan: SearchPlan, ready: _Prepared) -> list[Event]:
        """The reply where no model is asked: quotations, or a refusal."""
        near, selection = ready.near or [], ready.selection
        if not selection.passages:
            nothing = f"{NOTHING_FOUND} {self._foreign}".strip()
            return [*self.reader.say(nothing), self._done("refused", TokenUsage())]
        if ready.alternatives:
            self._watch.first_token()
            said = self.reader.say(question_back(ready.alternatives))
            return [*said, self._done("answered", TokenUsage(), alternatives=ready.alternatives)]
        if ready.unanswerable:
            return self._refused(plan, selection, near, TokenUsage())
        with self._watch.begin("generate") as step:
            self._watch.first_token()
            # Said once, above the first part that is quoted.
            first = self._known is None or any(one.n == 1 for one in selection.passages)
            introduction = INTRODUCTION if first else ""
            events = self._said(introduction if near else self._no_answer(plan, selection), near)
            step.tell({}, {"answer": self.reader.shown}, {"model": "none", "quotes": len(near)})
        return [*events, self._done("quoted" if near else "refused", TokenUsage())]

    async def ending(self, plan: SearchPlan, ready: _Prepared, usage: TokenUsage) -> list[Event]:
        """What follows what the model wrote: a refusal becomes a sentence of ours, doubts are said."""
        support = self.reader.answer().support
        refused = self.reader.refused or not self.reader.shown
        doubtful = bool(support) and not any(one.supported for one in support)
        if not (refused or doubtful):
            return [*self.reader.complete(), self._done("answered", usage)]
        near = ready.near
        if refused:
            self._foreign = await in_thread(lambda: foreign(self._question, self._settings.index), lambda: "generate")
        if near is None:
            near = await in_thread(lambda: self._nearest(plan, ready.selection), lambda: "generate")
        if refused:
            return self._refused(plan, ready.selection, near, usage)
        return [*(self._said(NEAREST_INSTEAD, near) if near else []), self._done("answered", usage, UNSUPPORTED)]

    def failed(self, failure: TurnFailed | IndexingError | EngineError) -> ErrorEvent:
        """How the turn ends where it cannot go on."""
        if isinstance(failure, TurnFailed):
            code = failure.code
        elif isinstance(failure, EngineError):
            code = "recipe_failed"
        else:
            missing = isinstance(failure, CollectionNotFound)
            code = "collection_not_found" if missing else f"{self._watch.running}_failed"
        return ErrorEvent(
            turn_id=self._turn_id,
            conversation_id=self._conversation_id,
            code=code,
            message=str(failure),
            answer=self.reader.shown,
            seconds=self._watch.all(),
        )

    def _nearest(self, plan: SearchPlan, selection: Selection, search: TurnSearch | None = None) -> list[Support]:
        """The sentences that come nearest to the question, by what the cross-encoder of `search` says of them."""
        scorer, passages = self.reader.scorer, selection.passages
        if search is not None and plan.context.asked and search.reranker and search.reranker.reads_conversations:
            # Where much is left out, words alone say little: what they lean on is read with them.
            read = partial(search.read, context=plan.context)
            return best_sentences(
                plan.matching, passages, scorer, lambda _, texts: read(plan.asked, texts), READS_IN_CONTEXT
            )
        found = best_sentences(plan.meaning, passages, scorer, search.read if search else None)
        if found or (search and plan.matching == plan.meaning):
            return found
        return best_sentences(plan.matching, passages, scorer)

    def _refused(
        self, plan: SearchPlan, selection: Selection, near: Sequence[Support], usage: TokenUsage
    ) -> list[Event]:
        """A refusal, and the sentences that come nearest: small models refuse what the passages do say."""
        self._watch.first_token()
        said = self._no_answer(plan, selection, nearest=bool(near))
        return [*self._said(said, near), self._done("refused", usage)]

    def _said(self, text: str, quotes: Sequence[Support]) -> list[Event]:
        """Words of the server's own, and quotations below them."""
        return [*self.reader.say(text), *(event for one in quotes for event in self.reader.quote(one))]

    def _done(
        self,
        status: Literal["answered", "quoted", "refused"],
        usage: TokenUsage,
        warning: str = "",
        alternatives: Sequence[Alternative] = (),
    ) -> DoneEvent:
        answer = self.reader.answer()
        kind: AnswerKind | None = "unanswerable" if status == "refused" else "extractive"
        if status == "answered":
            # A courtesy has no evidence, and a question back is no answer.
            kind = answer_kind(answer.plain, self._texts) if self._texts and not alternatives else None
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
            warning=warning,
            alternatives=list(alternatives),
            answerable=None if self._chances is None else round(1 - self._chances.refuse, 3),
            answer_kind=kind,
        )

    def _no_answer(self, plan: SearchPlan, selection: Selection, *, nearest: bool = False) -> str:
        titles = [passage.title or passage.document_id for passage in selection.passages]
        return no_answer(plan.rewrite.text, titles, len(titles), nearest=nearest, about=self._foreign)


async def _said_already(answer: str) -> AsyncGenerator[GeneratedText, None]:
    yield GeneratedText(answer)
