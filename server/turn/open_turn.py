"""One turn on its way: what is found for it, what a model is asked, and what is said of that or where none speaks.

The order of these, and what becomes of a failure, is `server.turn.pipeline`'s.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from index.errors import CollectionNotFound, IndexingError
from index.query import Hit, Where
from rewriter.conversation import Conversation
from server.engines.errors import EngineError
from server.recipes.base import POOL, RecipePool
from server.settings import Settings
from server.turn.answer import AnswerReader
from server.turn.decision import (
    Chances,
    alternatives,
    asked_back,
    chances,
    decide,
    language_of_hits,
    question_back,
)
from server.turn.events import (
    Alternative,
    DoneEvent,
    ErrorEvent,
    Event,
    Evidence,
    EvidenceEvent,
    RewriteEvent,
)
from server.turn.evidence import (
    READS_IN_CONTEXT,
    best_sentences,
    excerpts,
    nearest_sentences,
    renumbered,
    select_evidence,
)
from server.turn.generate import GeneratedText, GenerationError, generate
from server.turn.kinds import AnswerKind, answer_kind
from server.turn.languages import foreign
from server.turn.models import TurnModels
from server.turn.own_words import DOUBTFUL, INTRODUCTION, NEAREST_INSTEAD, NOTHING_FOUND, UNSUPPORTED, no_answer
from server.turn.prompt import TurnPrompt, build_prompt, evidence_budget
from server.turn.search import EDITED, Searchable, SearchPlan, TurnSearch
from server.turn.steps import Stopwatch, TurnFailed, in_thread
from server.turn.support import Support
from text.recorder import current
from text.translation import gettext

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

LONGEST_PASSAGE = 1000
"""Tokens that a passage of a recipe's pool is expected to cost at most."""
CANDIDATES = 3
"""Tokens of the evidence, as a multiple of what a model is shown of it."""


@dataclass(frozen=True, slots=True)
class PreparedTurn:
    """What a turn knows before anything is said. `near` is None where nobody has looked yet.

    `alternatives` are there where it asks back. `prompt` is None where no model is asked; `cut` says that it is shown
    less than everything.
    """

    passages: tuple[Evidence, ...]
    reranked: bool
    unanswerable: bool
    alternatives: list[Alternative]
    near: list[Support] | None
    prompt: TurnPrompt | None
    cut: bool


class OpenTurn:
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
        self._doubtful = False
        """Whether what is quoted comes nearest, and may not answer."""
        self._usage = GeneratedText("")
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
    ) -> PreparedTurn:
        """Search, rerank, select, cut and stem the evidence and build the prompt. Blocks, and is one call in one
        thread: each change of threads delays the first token."""
        retrieval, llm = self._settings.retrieval, self._settings.llm
        budget = evidence_budget(self._question, llm, self._models.style)
        hits, reranked = found or self.hits(search, searched, plan, where, wide=wide)
        # More than a model is shown: it reads the sentences of these that speak to the question.
        passages = select_evidence(
            hits,
            limit=POOL if wide else retrieval.evidence,
            budget=POOL * LONGEST_PASSAGE if wide else CANDIDATES * budget,
            document=searched.document,
        )
        if self._known is not None:
            passages = renumbered(passages, self._known)
        self._texts = [passage.text for passage in passages]
        language = language_of_hits(hits, self._settings.index.language)
        self._chances = chances(plan, hits, language)
        # Words that a person chose for the search, or said when asked back, are not asked about.
        may_ask = plan.decision != EDITED and not asked_back(self._conversation) and self._known is None
        outcome = decide(self._chances, retrieval, may_ask=may_ask)
        current().label(outcome=outcome, **asdict(self._chances))
        meant = alternatives(passages) if outcome == "ask" else []
        unanswerable = bool(passages) and outcome == "refuse"
        self.reader = AnswerReader(passages, language)
        if not passages or unanswerable or meant or self._models.chat_model is None:
            reads = self._models.chat_model is None and reranked
            near = [] if meant else self._nearest(plan, passages, search if reads else None)
            if unanswerable or not (near or meant):
                self._foreign = foreign(self._question, self._settings.index)
            return PreparedTurn(passages, reranked, unanswerable, meant, near, None, cut=False)
        shown = excerpts(plan.matching, passages, self.reader.scorer, budget)
        prompt = self.prompt(plan, RecipePool(plan.meaning, passages), shown)
        # A model that is shown less than everything is slow: readers see what is nearest before it has read its part.
        cut = any(shown.get(passage.n) != passage.text for passage in passages)
        return PreparedTurn(passages, reranked, False, [], self._nearest(plan, passages) if cut else None, prompt, cut)

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
        return [unchanged, nothing, *self.reader.say(reply), self._done("answered")]

    def unasked(self, plan: SearchPlan, ready: PreparedTurn) -> list[Event]:
        """The reply where no model is asked: quotations, or a refusal."""
        near, passages = ready.near or [], ready.passages
        if not passages:
            nothing = f"{gettext(NOTHING_FOUND)} {self._foreign}".strip()
            return [*self.reader.say(nothing), self._done("refused")]
        if ready.alternatives:
            self._watch.first_token()
            said = self.reader.say(question_back(ready.alternatives))
            return [*said, self._done("answered", alternatives=ready.alternatives)]
        if ready.unanswerable:
            return self._refused(plan, passages, near)
        with self._watch.begin("generate") as step:
            self._watch.first_token()
            # Said once, above the first part that is quoted.
            first = self._known is None or any(one.n == 1 for one in passages)
            introduction = gettext(DOUBTFUL if self._doubtful else INTRODUCTION) if first or self._doubtful else ""
            events = self._said(introduction if near else self._no_answer(plan, passages), near)
            step.tell({}, {"answer": self.reader.shown}, {"model": "none", "quotes": len(near)})
        return [*events, self._done("quoted" if near else "refused")]

    async def written(self, model: BaseChatModel, prompt: TurnPrompt, known: str = "") -> AsyncGenerator[Event, None]:
        """What the model writes as it comes; where a recipe has an answer already, that. Raises TurnFailed."""
        step, llm, reader = self._watch.begin("generate"), self._settings.llm, self.reader
        said, logprobs, spoke = list[str](), list[float](), 0.0
        pieces = (
            _said_already(known)
            if known
            else generate(
                model,
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
                    self._usage = self._usage.counted(piece)
                    for event in reader.feed(piece.text):
                        self._watch.first_token()
                        yield event
                    if reader.refused or reader.repeating:
                        break
            for event in reader.finish():
                self._watch.first_token()
                yield event
            if not (reader.shown or reader.refused) and self._usage.finish_reason == "length":
                raise GenerationError(
                    "llm_failed",
                    "The language model came to its longest answer before it wrote anything to show. Where it thinks "
                    "first, switch that off in its server, or raise llm.answer_tokens.",
                )
        except GenerationError as error:
            step.fail(error.code, str(error))
            for event in reader.finish(whole=False):
                yield event
            raise TurnFailed(error.code, str(error)) from error
        finally:
            step.prompt((one.role, one.text) for one in (() if known else prompt.messages))
            if logprobs:
                step.record(mean_logprob=sum(logprobs) / len(logprobs), logprobs=logprobs)
            step.tell(
                {},
                {"text": "".join(said), "pieces": [len(piece) for piece in said], "answer": reader.shown},
                {
                    "finish_reason": self._usage.finish_reason,
                    "model": self._models.name,
                    "prompt_version": prompt.version,
                    "prompt_tokens_expected": prompt.tokens,
                    "prompt_tokens": self._usage.prompt_tokens,
                    "completion_tokens": self._usage.completion_tokens,
                },
            )
            step.end()
        if self._models.pace and spoke:
            self._models.pace.add(self._usage.completion_tokens, time.perf_counter() - spoke)

    async def ending(self, plan: SearchPlan, ready: PreparedTurn) -> list[Event]:
        """What follows what the model wrote: a refusal becomes a sentence of ours, doubts are said."""
        support = self.reader.answer().support
        refused = self.reader.refused or not self.reader.shown
        doubtful = bool(support) and not any(one.supported for one in support)
        if not (refused or doubtful):
            return [*self.reader.complete(), self._done("answered")]
        near = ready.near
        if refused:
            self._foreign = await in_thread(lambda: foreign(self._question, self._settings.index), lambda: "generate")
        if near is None:
            near = await in_thread(lambda: self._nearest(plan, ready.passages), lambda: "generate")
        if refused:
            return self._refused(plan, ready.passages, near)
        instead = self._said(gettext(NEAREST_INSTEAD), near) if near else []
        return [*instead, self._done("answered", gettext(UNSUPPORTED))]

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

    def _nearest(
        self, plan: SearchPlan, passages: Sequence[Evidence], search: TurnSearch | None = None
    ) -> list[Support]:
        """The sentences that come nearest to the question, by what the cross-encoder of `search` says of them."""
        scorer = self.reader.scorer
        if search and plan.context.asked and search.reranker and search.reranker.reads_conversations:
            # Where much is left out, words alone say little: what they lean on is read with them.
            known = partial(search.read, plan.asked, context=plan.context)
            read, question = lambda _, texts: known(texts), plan.matching
            found, sure = nearest_sentences(question, passages, scorer, read, READS_IN_CONTEXT)
        else:
            question = plan.meaning
            found, sure = nearest_sentences(question, passages, scorer, search.read if search else None)
        by_words = [] if sure or question == plan.matching else best_sentences(plan.matching, passages, scorer)
        self._doubtful = bool(found) and not (sure or by_words)
        return by_words or found

    def _refused(self, plan: SearchPlan, passages: Sequence[Evidence], near: Sequence[Support]) -> list[Event]:
        """A refusal, and the sentences that come nearest: small models refuse what the passages do say."""
        self._watch.first_token()
        said = self._no_answer(plan, passages, nearest=bool(near))
        return [*self._said(said, near), self._done("refused")]

    def _said(self, text: str, quotes: Sequence[Support]) -> list[Event]:
        """Words of the server's own, and quotations below them."""
        return [*self.reader.say(text), *(event for one in quotes for event in self.reader.quote(one))]

    def _done(
        self,
        status: Literal["answered", "quoted", "refused"],
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
            finish_reason="length" if self._usage.finish_reason == "length" else "stop",
            citations=answer.citations,
            support=answer.support,
            dropped_citations=answer.dropped_citations,
            prompt_tokens=self._usage.prompt_tokens,
            completion_tokens=self._usage.completion_tokens,
            seconds=self._watch.all(),
            warning=warning,
            alternatives=list(alternatives),
            answerable=None if self._chances is None else round(1 - self._chances.refuse, 3),
            answer_kind=kind,
        )

    def _no_answer(self, plan: SearchPlan, passages: Sequence[Evidence], *, nearest: bool = False) -> str:
        titles = [passage.title or passage.document_id for passage in passages]
        return no_answer(plan.rewrite.text, titles, len(titles), nearest=nearest, about=self._foreign)


async def _said_already(answer: str) -> AsyncGenerator[GeneratedText, None]:
    yield GeneratedText(answer)
