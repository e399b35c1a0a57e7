"""The reply of one turn: generated, quoted, refused, or a question back.

`Reply` turns what the steps of `server.turn.run` found into events. It owns the `AnswerReader`, which holds what the
user has seen so far.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from index.documents import Hit
from index.errors import CollectionNotFound, IndexingError
from server.engines.base import EngineError
from server.settings import HouseInstructions, Settings
from server.turn.answer import Answer, AnswerEvent, AnswerReader, answer_kind, broken_form
from server.turn.decision import Chances, best_relevance
from server.turn.events import (
    Alternative,
    AnswerKind,
    DoneEvent,
    ErrorEvent,
    Event,
    Evidence,
    EvidenceEvent,
    FoldEvent,
    NearestEvent,
    RewriteEvent,
    Status,
    Stopwatch,
    SupportEvent,
    TurnFailed,
    run_blocking,
)
from server.turn.evidence import held, nearest_sentences, readable, unrepeated
from server.turn.models import GeneratedText, ModelStream, TurnModels, TurnPrompt
from server.turn.search import SearchPlan, TurnSearch
from server.turn.support import Support, verify
from server.turn.system_messages import (
    DOUBTFUL,
    INTRODUCTION,
    NEAREST_INSTEAD,
    NOTHING_FOUND,
    UNSUPPORTED,
    QuestionBack,
    no_answer,
    unsupported_language_notice,
)
from text.languages import ENGLISH, gettext, language_of
from text.recorder import current

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


_WORD_AT_END = re.compile(r"\w+$")
_LISTED = re.compile(r"\[\d{1,3}\]\s+\S")
"""Begins a copy of the nearest sentences as the prompt lists them, which the quotes say better."""


@dataclass(frozen=True, slots=True)
class WrittenAnswer:
    """An answer that a person wrote ahead; it `refuses` where it only says where else to ask."""

    id: str
    text: str
    passages: tuple[Evidence, ...] = ()
    refuses: bool = False


@dataclass(frozen=True, slots=True)
class Selection:
    """The evidence of a turn and what follows from it; `plan` is what it was searched by in the end.

    `question_back` is what is asked back, if anything. `nearest` is None if nobody looked for the nearest sentences.
    `prompt` is None if no model is asked. `quotes_first` tells that the model is small or slow: readers see the nearest
    sentences before it has read, and its text only stands if they bear it out.
    """

    plan: SearchPlan
    passages: tuple[Evidence, ...]
    reranked: bool
    unanswerable: bool
    question_back: QuestionBack | None
    nearest: list[Support] | None
    prompt: TurnPrompt | None
    quotes_first: bool = False


class Reply:
    """Produce the events of one reply. `ids` are the turn's id and the conversation's."""

    def __init__(
        self,
        settings: Settings,
        question: str,
        models: TurnModels,
        watch: Stopwatch,
        ids: tuple[str, str | None],
        house: HouseInstructions,
    ) -> None:
        self._house = house
        self._settings = settings
        self._question = question
        self._models = models
        self._watch = watch
        self._turn_id, self._conversation_id = ids
        self._chances: Chances | None = None
        self._texts: list[str] = []
        self.doubtful = False
        """Whether the quoted sentences come nearest and may not answer."""
        self.said: tuple[str, ...] = ()
        """The earlier answers to other questions, newest first, as later turns read them."""
        self.behind_doubt = False
        """Whether an earlier answer was told with a doubt."""
        self.held = 0.0
        """How likely the quoted sentences hold the answer, by what the cross-encoder read."""
        self._usage = GeneratedText("")
        self._language = ENGLISH
        self._folded = ""
        self.far = False
        """Whether no passage is near enough to the question to be quoted below a refusal."""
        self.notice = ""
        """A sentence about a question in a language that the search does not understand."""
        self.reader = AnswerReader(())

    def open(self, passages: Sequence[Evidence], language: str = ENGLISH, odds: Chances | None = None) -> None:
        """Begin a reply that may cite `passages`; compare words by the stems of `language`."""
        self._texts = [passage.text for passage in passages]
        self._chances, self._language = odds, language
        self.reader = AnswerReader(passages, language)

    def failure(self, failure: TurnFailed | IndexingError | EngineError) -> ErrorEvent:
        """Return the event that ends a failed turn."""
        if isinstance(failure, TurnFailed):
            code = failure.code
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

    def smalltalk(self, text: str) -> list[Event]:
        """Return a whole turn that neither searches nor asks a model."""
        unchanged = RewriteEvent(
            question=self._question, text=self._question, decision="keep", rewriter="", variants=[], seconds=0
        )
        nothing = EvidenceEvent(passages=[], reranked=False, seconds=0)
        self._watch.first_token()
        return [unchanged, nothing, *self.reader.say(text), self._done("answered")]

    def written(self, answer: WrittenAnswer) -> list[Event]:
        """Return the reply that a person wrote ahead: neither searched for nor checked."""
        self.open(answer.passages)
        self._watch.first_token()
        evidence = EvidenceEvent(passages=list(answer.passages), reranked=False, seconds=0)
        events: list[Event] = [evidence, *self.reader.write(answer.text)]
        return [*events, self._done("refused" if answer.refuses else "answered", written=answer.id)]

    def extractive(self, plan: SearchPlan, selection: Selection) -> list[Event]:
        """Return the reply of a turn that asks no model: quotes, a question back, or a refusal."""
        nearest, passages = selection.nearest or [], selection.passages
        if not passages:
            text = f"{gettext(NOTHING_FOUND)} {self.notice}".strip()
            return [*self.reader.say(text), *self._house_refusal(), self._done("refused")]
        if (asks := selection.question_back) is not None:
            self._watch.first_token()
            # Whoever asked may have the answer already.
            question = self.reader.say(asks.text)
            quotes = self._quote(gettext(DOUBTFUL), nearest) if nearest else []
            return [*question, *quotes, self._done("asked", alternatives=asks.alternatives)]
        if selection.unanswerable:
            return self._refuse(plan, passages, nearest)
        with self._watch.begin("generate") as step:
            self._watch.first_token()
            quotes = self._quotes_alone(plan, passages, nearest)
            step.tell({}, {"answer": self.reader.shown}, {"model": "none", "quotes": len(nearest)})
        return quotes

    def first_quotes(self, selection: Selection) -> list[Event]:
        """Return what readers see while a small or slow model reads: the nearest sentences."""
        if not (selection.quotes_first and selection.nearest):
            return []
        self._watch.first_token()
        return [NearestEvent(quotes=selection.nearest, sure=not self.doubtful)]

    async def stream(self, model: BaseChatModel, prompt: TurnPrompt) -> AsyncGenerator[Event, None]:
        """Yield the events of a generated answer as they come. Raises TurnFailed."""
        step, llm, reader = self._watch.begin("generate"), self._settings.llm, self.reader
        texts, began = list[str](), 0.0
        pieces = ModelStream(model, prompt.messages, timeout_seconds=llm.timeout_seconds, step=step)
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    texts.append(piece.text)
                    began = began or time.perf_counter()
                    self._usage = self._usage.counted(piece)
                    for event in reader.feed(piece.text):
                        self._watch.first_token()
                        yield event
                    if reader.refused or reader.repeating or self._breaks_house():
                        break
            for event in reader.finish():
                self._watch.first_token()
                yield event
            if not (reader.shown or reader.refused) and self._usage.finish_reason == "length":
                raise TurnFailed(
                    "llm_failed",
                    "The language model reached its longest answer before it wrote anything to show. If it thinks "
                    "first, switch that off in its server, or raise llm.answer_tokens.",
                )
        except TurnFailed as error:
            step.fail(error.code, str(error))
            for event in reader.finish(whole=False):
                yield event
            raise
        finally:
            step.prompt((message.role, message.text) for message in prompt.messages)
            step.tell(
                {},
                {"text": "".join(texts), "pieces": [len(text) for text in texts], "answer": reader.shown},
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
        if self._models.pace and began:
            self._models.pace.add(self._usage.completion_tokens, time.perf_counter() - began)

    async def check(self, plan: SearchPlan, selection: Selection) -> list[Event]:
        """Return the events after a generated answer: nothing more, a refusal in our words, a warning, or the quotes.

        Quotes take the place of a small model's text if it refuses, breaks form, contradicts what it cites, or if most
        of its sentences are unsupported. A large model's own judgement stands, with a warning.
        """
        changed = await self._verify(plan)
        return [*changed, *await self._checked(plan, selection)]

    async def _verify(self, plan: SearchPlan) -> list[SupportEvent]:
        """Have the pair model, which knows English, read the statements; return the judgements that it changed."""
        pairs, reader = self._models.pairs, self.reader
        statements = reader.statements()
        if pairs is None or not statements or reader.refused or self._language != ENGLISH:
            return []

        def read() -> list[SupportEvent]:
            english = language_of(self._question) in ("", ENGLISH)
            return verify(statements, reader.scorer, pairs, plan.meaning) if english else []

        with self._watch.begin("verify") as step:
            changed = await run_blocking(read, lambda: "verify")
            step.label(statements=len(statements), contradicted=sum(event.contradicted for event in changed))
        reader.rejudge(changed)
        return changed

    async def _checked(self, plan: SearchPlan, selection: Selection) -> list[Event]:
        answer = self.reader.answer()
        support = answer.support
        refused = self.reader.refused or not self.reader.shown
        if selection.quotes_first and (reason := self._fault(answer, refused)):
            current().label(folded=reason)
            return await self._fold(plan, selection)
        if not refused and self._house.breaks(answer.text):
            current().label(folded="house")
            return await self._fold(plan, selection)
        doubtful = bool(support) and not any(event.supported for event in support)
        if not (refused or doubtful):
            return [*self.reader.complete(), self._done("answered")]
        if refused:
            self.notice = await run_blocking(
                lambda: unsupported_language_notice(self._question, self._settings.index), lambda: "generate"
            )
        nearest = await self._nearest(plan, selection)
        if refused:
            return self._refuse(plan, selection.passages, nearest)
        instead = self._quote(gettext(NEAREST_INSTEAD), nearest) if nearest else []
        return [*instead, self._done("answered", gettext(UNSUPPORTED))]

    def _fault(self, answer: Answer, refused: bool) -> str:
        """Return why a small model's answer cannot stand, in a word for traces; empty if it can."""
        if refused:
            return "refuses"
        # A copy is no surer than quotes that a cross-encoder doubts.
        copies = self.doubtful and self.held > 0 and answer_kind(answer.plain, self._texts) == "extractive"
        if copies or _LISTED.match(answer.text):
            return "copies"
        if fault := broken_form(answer.plain, self._question, self.said, self._texts):
            return fault
        if any(event.contradicted for event in answer.support):
            return "contradicts"
        spoken = language_of(self._question)
        if spoken and spoken != self._language:
            # Words of two languages cannot be compared.
            return ""
        unsupported = sum(not event.supported for event in answer.support)
        return "unsupported" if 2 * unsupported > len(answer.support) else ""

    async def _fold(self, plan: SearchPlan, selection: Selection) -> list[Event]:
        """Take back what the model wrote and answer as without a model."""
        text = self.reader.shown
        passages, language = selection.passages, self._language
        self.reader = await run_blocking(lambda: AnswerReader(passages, language), lambda: "generate")
        taken_back: list[Event] = [FoldEvent(start=0)] if text else []
        self._folded = "" if self._house.breaks(text) else text
        return [*taken_back, *self._quotes_alone(plan, passages, await self._nearest(plan, selection))]

    async def _nearest(self, plan: SearchPlan, selection: Selection) -> list[Support]:
        if selection.nearest is not None:
            return selection.nearest
        return await run_blocking(lambda: self.nearest(plan, selection.passages), lambda: "generate")

    def _quotes_alone(self, plan: SearchPlan, passages: Sequence[Evidence], nearest: Sequence[Support]) -> list[Event]:
        """Answer by quotes; refuse if there are none."""
        if not nearest:
            return self._refuse(plan, passages, ())
        # Shown once, above the first part that is quoted.
        first = any(passage.n == 1 for passage in passages)
        introduction = gettext(DOUBTFUL if self.doubtful else INTRODUCTION) if first or self.doubtful else ""
        return [*self._quote(introduction, nearest), self._done("quoted")]

    def nearest(
        self,
        plan: SearchPlan,
        passages: Sequence[Evidence],
        search: TurnSearch | None = None,
        hits: Sequence[Hit] = (),
    ) -> list[Support]:
        """Return the sentences nearest to the question, by what the cross-encoder of `search` read of the hits, if it
        is given, else by words."""
        scorer = self.reader.scorer
        chances = search.sentence_chances(plan, passages, hits, scorer) if search else {}
        said = "\n\n".join(self.said)
        fresh = unrepeated(chances, scorer, said) if chances and said else chances
        question = plan.matching if chances else plan.meaning
        nearest = partial(
            nearest_sentences, typed=plan.question, item=plan.item, before=said, behind_doubt=self.behind_doubt
        )
        odds, relevance = self._chances, best_relevance(hits) if chances else 0.0
        sentences, sure = nearest(question, passages, scorer, fresh, odds=odds, relevance=relevance)
        # Of letters that the cross-encoder never learnt it finds the passage, and words tell whether it answers.
        reads = readable(plan.question)
        if not (sure and reads) and (question != plan.matching or not reads):
            by_words, sure = nearest(plan.matching, passages, scorer, odds=None if chances else odds)
            sentences = by_words if sure or not sentences else sentences
        self.doubtful = bool(sentences) and not sure
        # What was said may answer this, too: that is no reason to refuse or to ask back.
        self.held = held(sentences, chances)
        return sentences

    def _refuse(self, plan: SearchPlan, passages: Sequence[Evidence], nearest: Sequence[Support]) -> list[Event]:
        """Refuse and quote the nearest sentences, if any is near: small models refuse much that the passages answer."""
        self._watch.first_token()
        quotes = () if self.far else nearest
        titles = [passage.title or passage.document_id for passage in passages]
        searched, near = plan.rewrite.text, bool(quotes)
        text = no_answer(searched, titles, len(titles), nearest=near, far=self.far, about=self.notice)
        return [*self._quote(text, quotes), *self._house_refusal(), self._done("refused")]

    def _breaks_house(self) -> bool:
        """Whether what is shown by now has a word that the house never uses; the last one may go on."""
        return bool(self._house.never and self._house.breaks(_WORD_AT_END.sub("", self.reader.shown)))

    def _house_refusal(self) -> list[AnswerEvent]:
        return self.reader.say(self._house.refusal) if self._house.refusal.strip() else []

    def _quote(self, text: str, quotes: Sequence[Support]) -> list[Event]:
        """Show a system message with quotes below it."""
        return [*self.reader.say(text), *(event for quote in quotes for event in self.reader.quote(quote))]

    def _done(
        self, status: Status, warning: str = "", alternatives: Sequence[Alternative] = (), written: str = ""
    ) -> DoneEvent:
        answer = self.reader.answer()
        kinds: dict[Status, AnswerKind] = {"refused": "unanswerable", "quoted": "extractive"}
        kind = kinds.get(status)
        if status == "answered" and self._texts:  # small talk has no evidence
            kind = answer_kind(answer.plain, self._texts)
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
            doubted=bool(warning) or (status == "quoted" and self.doubtful),
            folded=self._folded,
            written=written,
            alternatives=list(alternatives),
            answerable=None if self._chances is None else round(self._chances.sufficient, 3),
            answer_kind=kind,
        )
