"""A question answered part by part: each searched and answered as a turn of its own, told as one turn.

All parts are searched before anything is said, so that the evidence is known at once; a passage that two parts found
has one number. Then the parts are answered in their order, each below the question it answers. Which parts there are is
told by `server.recipes.splitting`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Literal, TypeAlias

from index.query import Hit
from rewriter.conversation import Conversation, Message
from server.evidence.asking import QuoteAsker
from server.recipes.registry import told_parts
from server.recipes.splitting import QuestionPart, covered, parts_of
from server.turn.decision import unformatted
from server.turn.events import (
    CitationEvent,
    DoneEvent,
    ErrorEvent,
    Event,
    Evidence,
    EvidenceEvent,
    StepEvent,
    SupportEvent,
    TokenEvent,
)
from server.turn.kinds import AnswerKind
from server.turn.search import SearchPlan
from server.turn.steps import Stopwatch
from text.recorder import Call, current

Found: TypeAlias = tuple[list[Hit], bool]
"""Hits, and whether they were reranked."""


async def parts_for(
    way: str, plan: SearchPlan, find: Callable[[], Awaitable[Found]], asker: Callable[[], QuoteAsker | None]
) -> tuple[tuple[QuestionPart, ...], Found | None]:
    """The parts to answer one by one, none where the question is answered whole; and what was found for the whole.

    With `auto` a question has parts by its form, and is answered whole where one section covers them. With `decompose`
    a model is asked where the form says nothing. Raises as `find`, and AskingFailed.
    """
    question = plan.meaning if plan.decision == "rewrite" else plan.question
    parts = parts_of(question) if way in ("auto", "decompose") else ()
    found = await find() if way == "auto" and parts else None
    if found is not None and covered(parts, found[0]):
        parts = ()
    told = "parts"
    if way == "decompose" and not parts and (model := asker()) is not None:
        parts, told = await told_parts(question, model), way
    if parts:
        current().label(recipe=told)
    return parts, found


def before(conversation: Conversation, plan: SearchPlan, first: QuestionPart, part: QuestionPart) -> Conversation:
    """What was said before a part: nothing where the question was rewritten, the first part where it points back."""
    history = () if plan.decision == "rewrite" else conversation.messages
    return Conversation((*history, *([Message("user", first.text)] if part.leans else [])))


async def joined(
    plan: SearchPlan, parts: Sequence[QuestionPart], runs: Sequence[AsyncGenerator[Event, None]], watch: Stopwatch
) -> AsyncGenerator[Event, None]:
    """The events of the parts' `runs`, each a whole turn that numbers its evidence on, as those of one turn.

    The first part that ends in an error ends the turn.
    """
    calls = [current().begin("part") for _ in parts]
    try:
        yield plan.event().model_copy(update={"decision": "parts", "alternatives": [part.text for part in parts]})
        passages, reranked, answer, at = dict[int, Evidence](), False, "", 0
        for call, part, events in zip(calls, parts, runs, strict=True):
            call.inputs(question=part.text)
            while (event := await _next(events, call)) is not None and not isinstance(event, EvidenceEvent):
                if isinstance(event, ErrorEvent):
                    yield event
                    return
            if event is not None:
                passages.update((one.n, one) for one in event.passages)
                reranked |= event.reranked
        found = [passages[n] for n in sorted(passages)]
        yield EvidenceEvent(passages=found, reranked=reranked, seconds=watch.all()["total"])
        endings = list[DoneEvent]()
        for n, (call, part, events) in enumerate(zip(calls, parts, runs, strict=True)):
            yield StepEvent(name="part", done=n, of=len(parts), text=part.text)
            heading = ("\n\n" if answer else "") + f"**{unformatted(part.text)}**\n\n"
            while (event := await _next(events, call)) is not None:
                if isinstance(event, ErrorEvent):
                    yield event.model_copy(update={"answer": answer, "seconds": watch.all()})
                    return
                if isinstance(event, DoneEvent):
                    endings.append(_moved_ending(event, at))
                    continue
                if isinstance(event, TokenEvent):
                    if heading:
                        watch.first_token()
                        yield TokenEvent(text=heading)
                        answer, heading = answer + heading, ""
                        at = len(answer)
                    answer += event.text
                yield _moved(event, at) if isinstance(event, CitationEvent | SupportEvent) else event
            call.end()
        yield _together(endings, answer, watch)
    finally:
        for call, events in zip(calls, runs, strict=True):
            await events.aclose()
            call.end()


async def _next(events: AsyncGenerator[Event, None], call: Call) -> Event | None:
    with call.current():
        return await anext(events, None)


def _moved(event: CitationEvent | SupportEvent, by: int) -> CitationEvent | SupportEvent:
    return event.model_copy(update={"answer_start": event.answer_start + by, "answer_end": event.answer_end + by})


def _moved_ending(done: DoneEvent, by: int) -> DoneEvent:
    citations, support = ([_moved(one, by) for one in found] for found in (done.citations, done.support))
    return done.model_copy(update={"citations": citations, "support": support})


def _together(endings: Sequence[DoneEvent], answer: str, watch: Stopwatch) -> DoneEvent:
    """One ending: answered where a part was, refused only where all were."""
    said = {one.status for one in endings}
    status: Literal["answered", "quoted", "refused"] = (
        "answered" if "answered" in said else "quoted" if "quoted" in said else "refused"
    )
    kinds = {one.answer_kind for one in endings if one.status != "refused"}
    kind: AnswerKind | None = (
        "unanswerable" if status == "refused" else kinds.pop() if len(kinds) == 1 else "abstractive"
    )
    steps = {name: sum(one.seconds.get(name, 0.0) for one in endings) for one in endings for name in one.seconds}
    chances = [one.answerable for one in endings if one.answerable is not None]
    return endings[0].model_copy(
        update={
            "status": status,
            "answer": answer,
            "finish_reason": "length" if any(one.finish_reason == "length" for one in endings) else "stop",
            "citations": [cited for one in endings for cited in one.citations],
            "support": [judged for one in endings for judged in one.support],
            "dropped_citations": sum(one.dropped_citations for one in endings),
            "prompt_tokens": sum(one.prompt_tokens for one in endings),
            "completion_tokens": sum(one.completion_tokens for one in endings),
            "seconds": {**steps, **watch.all()},
            "warning": " ".join(dict.fromkeys(one.warning for one in endings if one.warning)),
            "answerable": min(chances, default=None),
            "answer_kind": kind,
        }
    )
