"""The reply of a turn: written by a model and checked, quoted where there is none, or refused."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import TYPE_CHECKING, Literal

from rewriter.conversation import Conversation
from server.settings import LLMSettings
from server.turn.answer import AnswerReader
from server.turn.events import DoneEvent, Event, NearestEvent, Quotation
from server.turn.evidence import Selection
from server.turn.excerpts import excerpts
from server.turn.extractive import INTRODUCTION, best_sentences
from server.turn.failures import TurnFailed, in_thread
from server.turn.generate import GenerationError, TokenUsage, generate
from server.turn.prompt import build_prompt, evidence_budget
from server.turn.search import SearchPlan
from server.turn.steps import Stopwatch
from server.turn.support import Support
from server.turn.wording import NEAREST_INSTEAD, NOTHING_FOUND, UNSUPPORTED, no_answer

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


class Reply:
    """One reply. `reader` holds what the user has been shown of it."""

    def __init__(
        self,
        *,
        question: str,
        conversation: Conversation,
        llm: LLMSettings,
        chat_model: BaseChatModel | None,
        ids: tuple[str, str | None],
        watch: Stopwatch,
    ) -> None:
        self.reader = AnswerReader(())
        self._question = question
        self._conversation = conversation
        self._llm = llm
        self._chat_model = chat_model
        self._turn_id, self._conversation_id = ids
        self._watch = watch
        self._near: list[Support] | None = None

    async def events(
        self, plan: SearchPlan, selection: Selection, *, unanswerable: bool
    ) -> AsyncGenerator[Event, None]:
        """The answer to what was planned, from what was selected; refused unasked where it is `unanswerable`.

        Raises TurnFailed; what was shown by then stands in `reader.shown`.
        """
        self.reader = AnswerReader(selection.passages)
        if not selection.passages:
            for said in self.reader.say(NOTHING_FOUND):
                yield said
            yield self._done("refused", TokenUsage())
            return
        if unanswerable:
            replying = self._refuse(plan, selection, TokenUsage())
        elif self._chat_model is None:
            replying = self._quote(plan, selection)
        else:
            replying = self._write(self._chat_model, plan, selection)
        async with aclosing(replying) as events:
            async for event in events:
                yield event

    async def _quote(self, plan: SearchPlan, selection: Selection) -> AsyncGenerator[Event, None]:
        """The best sentences, or a refusal."""
        step = self._watch.begin("generate")
        found = await self._nearest(plan, selection)
        self._watch.first_token()
        for event in self._said(INTRODUCTION if found else no_answer(plan, selection), found):
            yield event
        step.end({}, {"answer": self.reader.shown}, {"model": "none", "quotes": len(found)})
        yield self._done("quoted" if found else "refused", TokenUsage())

    async def _refuse(self, plan: SearchPlan, selection: Selection, usage: TokenUsage) -> AsyncGenerator[Event, None]:
        """A refusal, and the sentences that come nearest: small models refuse what the passages do say."""
        found = await self._nearest(plan, selection)
        self._watch.first_token()
        for event in self._said(no_answer(plan, selection, nearest=bool(found)), found):
            yield event
        yield self._done("refused", usage)

    async def _nearest(self, plan: SearchPlan, selection: Selection) -> list[Support]:
        """The sentences that come nearest to the question, looked for once in a turn."""

        def find() -> list[Support]:
            found = best_sentences(plan.meaning, selection.passages, self.reader.scorer)
            return found or best_sentences(plan.matching, selection.passages, self.reader.scorer)

        if self._near is None:
            self._near = await in_thread(find, "generate")
        return self._near

    def _said(self, text: str, quotes: Sequence[Support]) -> Iterator[Event]:
        """Words of the server's own, and quotations below them."""
        yield from self.reader.say(text)
        for support in quotes:
            yield from self.reader.quote(support)

    async def _write(
        self, chat_model: BaseChatModel, plan: SearchPlan, selection: Selection
    ) -> AsyncGenerator[Event, None]:
        """What the model writes, checked; a refusal becomes a sentence of ours."""
        llm, reader = self._llm, self.reader
        budget = evidence_budget(self._question, llm)
        shown = excerpts(plan.matching, selection.passages, reader.scorer, budget)
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
        usage, raw = TokenUsage(), ""
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
                    for event in reader.feed(piece.text):
                        self._watch.first_token()
                        yield event
                    if reader.refused or reader.repeating:
                        break
            for event in reader.finish():
                self._watch.first_token()
                yield event
        except GenerationError as error:
            for event in reader.finish(whole=False):
                yield event
            raise TurnFailed(error.code, str(error)) from error
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
            return
        warning = "" if self._supported() else UNSUPPORTED
        if warning and (near := await self._nearest(plan, selection)):
            for said in self._said(NEAREST_INSTEAD, near):
                yield said
        yield self._done("answered", usage, warning)

    def _supported(self) -> bool:
        """Whether the documents support something of what was said, or nothing was stated."""
        support = self.reader.answer().support
        return not support or any(one.supported for one in support)

    def _done(
        self, status: Literal["answered", "quoted", "refused"], usage: TokenUsage, warning: str = ""
    ) -> DoneEvent:
        answer = self.reader.answer()
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
        )
