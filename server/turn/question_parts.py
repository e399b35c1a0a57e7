"""Split a question that asks for several things, and answer it part by part.

`split_question` reads the English form: several questions in a row, two questions or tasks joined by *and*, and two
things compared. No model is asked. `covered` tells whether one section answers all parts. `merge_part_events` joins the
turns of the parts into one stream.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass

import regex

from index.query import Hit
from rewriter.protocol import Conversation, Message
from server.turn.ask_back import unformatted
from server.turn.events import (
    AnswerKind,
    CitationEvent,
    DoneEvent,
    ErrorEvent,
    Event,
    Evidence,
    EvidenceEvent,
    FoldEvent,
    Status,
    StepEvent,
    SupportEvent,
    TokenEvent,
)
from server.turn.search import SearchPlan
from server.turn.steps import Stopwatch
from text.recorder import Call, current
from text.words import stems

MOST = 4
"""Parts at most; a question of more is left whole."""
LONGEST = 600
"""Characters; a longer question tells a story, and is left whole."""
COVERED = 0.75
"""Share of each part's own words that one section must hold to answer all."""

_AUX = r"(?:is|are|was|were|am|do|does|did|can|could|will|would|should|shall|may|might|must|has|have|had)(?:n['’]t)?"
_SUBJECT = r"(?:i|you|we|they|he|she|it|one|there|the|an?|this|that|these|those|my|your|our|their|its|any|all|someone)"
_HOW = (
    r"how\s+(?:(?:much|many|long|often|far|old|big|fast|large|do|does|did|can|could|should|would|to|is|are|was|were)\b)"
)
_QUESTION = regex.compile(
    rf"(?:{_HOW}|(?:what|which|who|whom|whose)\b|(?:when|where|why)\s+{_AUX}\b|why\s+not\b|{_AUX}\s+{_SUBJECT}\b"
    rf"|(?:is|are|was|were|does|do|did)\s+(?-i:[\p{{Lu}}\d`]))",
    regex.IGNORECASE,
)
_WHETHER = regex.compile(rf"(?!ha[sdv])(?:{_AUX})\s+\S", regex.IGNORECASE)
_MEASURE = regex.compile(r"^how\s+(?:long|much|many|often|far|old|big|fast|large)\b", regex.IGNORECASE)
_LEAD = regex.compile(
    r"\W*(?:(?:and|but|so|or|also|then|ok|okay|well|hi|hello|hey|thanks?|sorry)\b\W*)+", regex.IGNORECASE
)
_JOIN = regex.compile(r"(?:,\s*|\s+|;\s*)(?:and|but)(?:\s+(?:also|then|if so,?))?\s+", regex.IGNORECASE)
_SENTENCE = regex.compile(r"[^?？]+[?？]+")
_POINTS_BACK = regex.compile(r"\b(?:it|its|itself|them|they|their|that|this|these|those|one|there)\b", regex.IGNORECASE)

_HANGS = regex.compile(rf"\b(?:how|what|which|who|when|where|why|if|{_AUX})\W*$", regex.IGNORECASE)
"""Ends what cannot stand alone: "how and when …"."""

_THING = r"(?:[^,;?.]|\.(?=\w)){1,80}?"
_END = r"(?:[?,;]|\.(?!\w)|$)"
_COMPARES = tuple(
    regex.compile(pattern, regex.IGNORECASE)
    for pattern in (
        rf"\bdifferences?\s+(?:there\s+is\s+|is\s+there\s+|lies?\s+)?(?:in\s+(?P<aspect>{_THING})\s+)?between\s+"
        rf"(?P<a>{_THING})\s+(?:and|vs\.?|versus|or)\s+(?P<b>{_THING})\s*{_END}",
        rf"\bcompar(?:e|ing|ison)\s+(?:of\s+|between\s+)?(?P<a>{_THING})\s+(?:and|with|to|against|vs\.?)\s+(?P<b>{_THING})\s*"
        rf"{_END}",
        rf"\bhow\s+(?:do|does|is|are|did)\s+(?P<a>{_THING})\s+(?:differ(?:s|ent)?\s+(?:from|to)|compare(?:s|d)?\s+(?:to|with|"
        rf"against))\s+(?P<b>{_THING})\s*{_END}",
        rf"\bhow\s+(?:do|are)\s+(?P<a>{_THING})\s+and\s+(?P<b>{_THING})\s+(?:differ(?:ent)?|compare)\b",
        rf"^\W*(?!{_QUESTION.pattern})(?P<a>{_THING})\s+(?:vs\.?|versus)\s+(?P<b>{_THING})\s*{_END}",
        rf"\b(?:which|what)\b[^,?]*?\b(?P<aspect>\p{{L}}+er|more\s+\p{{L}}+|less\s+\p{{L}}+|better)\b[^,?]*[,:]\s*"
        rf"(?P<a>{_THING})\s+or\s+(?P<b>{_THING})\s*{_END}",
        rf"^\W*(?:is|are)\s+(?P<a>{_THING})\s+(?P<aspect>\p{{L}}+er|more\s+\p{{L}}+|less\s+\p{{L}}+|better)\s+than\s+"
        rf"(?P<b>{_THING})\s*{_END}",
    )
)


@dataclass(frozen=True, slots=True)
class QuestionPart:
    """A part of a question, as one that can be searched for; `leans` where it points at what was asked before it."""

    text: str
    leans: bool = False


def split_question(question: str) -> tuple[QuestionPart, ...]:
    """Return the parts of a question that asks for several things, two to `MOST` of them; else none."""
    text = " ".join(question.split())
    if len(text) > LONGEST:
        return ()
    return next((parts for parts in (_compared(text), _asked(text)) if 1 < len(parts) <= MOST), ())


def covered(parts: Sequence[QuestionPart], hits: Iterable[Hit], first: int = 5) -> bool:
    """Whether one section among the first passages holds the words of every part, so that it may answer them all."""
    held: dict[tuple[str, tuple[str, ...]], set[str]] = {}
    for hit in list(hits)[:first]:
        place = hit.passage.document_id, hit.passage.heading
        held.setdefault(place, set()).update(stems(hit.passage.indexed_text))
    wanted = [set(stems(_MEASURE.sub("", part.text))) for part in parts]
    return any(all(len(stems_of & words) >= COVERED * len(stems_of) for stems_of in wanted) for words in held.values())


def _asked(text: str) -> tuple[QuestionPart, ...]:
    """Find questions in a row, and questions joined within one of them."""
    sentences = [sentence.strip() for sentence in _SENTENCE.findall(text)] or [text]
    if text not in sentences and len(stems(_SENTENCE.sub("", text))) > 1:
        # What is told behind the questions bears on all of them.
        return ()
    parts = list[QuestionPart]()
    for sentence in sentences:
        bare = _LEAD.sub("", sentence, count=1) if _LEAD.match(sentence) else sentence
        # What is told before the question belongs to it.
        last_sentence = regex.split(r"(?<=[.!])\s+", bare)[-1]
        if stems(last_sentence) and (_QUESTION.match(last_sentence) or _WHETHER.match(last_sentence)):
            for clause in _clauses(bare):
                parts.append(QuestionPart(_closed(clause), bool(parts) and bool(_POINTS_BACK.search(clause))))
    return tuple(parts)


def _clauses(sentence: str) -> list[str]:
    """Cut a sentence where another question is joined to it."""
    clauses, rest = list[str](), sentence
    for match in _JOIN.finditer(sentence):
        before, behind = rest[: match.start() - (len(sentence) - len(rest))], sentence[match.end() :]
        # "How and when …" and "what is and is not …" are one question each.
        stands = not _HANGS.search(before) and min(len(before.split()), len(behind.split())) > 2
        if _QUESTION.match(behind) and stands and (stems(before) or stems(behind)):
            clauses.append(before)
            rest = behind
    return [*clauses, rest]


def _compared(text: str) -> tuple[QuestionPart, ...]:
    for pattern in _COMPARES:
        if (match := pattern.search(text)) is not None:
            named = match.groupdict()
            things = [named[name].strip(" \"'“”") for name in "ab"]
            if all(stems(thing) for thing in things) and len(set(things)) == 2:
                aspect = f": {named['aspect']}" if named.get("aspect") else ""
                return tuple(QuestionPart(f"What is {thing}{aspect}?") for thing in things)
    return ()


def _closed(clause: str) -> str:
    text = clause.strip(" ,;.?？")
    return f"{text[:1].upper()}{text[1:]}?"


def conversation_before(
    conversation: Conversation, plan: SearchPlan, first: QuestionPart, part: QuestionPart
) -> Conversation:
    """Return the history of a part: none after a rewrite, and the first part if this one points back at it."""
    history = () if plan.decision == "rewrite" else conversation.messages
    return Conversation((*history, *([Message("user", first.text)] if part.leans else [])))


async def merge_part_events(
    plan: SearchPlan, parts: Sequence[QuestionPart], runs: Sequence[AsyncGenerator[Event, None]], watch: Stopwatch
) -> AsyncGenerator[Event, None]:
    """Yield the events of the parts' `runs` as those of one turn.

    Each run is a whole turn whose evidence numbers continue those of the part before. All parts are searched before the
    first token. The first part that ends in an error ends the turn.
    """
    calls = [current().begin("part") for _ in parts]
    try:
        yield plan.event().model_copy(update={"decision": "parts", "parts": [part.text for part in parts]})
        passages, reranked, answer, at = dict[int, Evidence](), False, "", 0
        for call, part, events in zip(calls, parts, runs, strict=True):
            call.inputs(question=part.text)
            while (event := await _next(events, call)) is not None and not isinstance(event, EvidenceEvent):
                if isinstance(event, ErrorEvent):
                    yield event
                    return
            if event is not None:
                passages.update((passage.n, passage) for passage in event.passages)
                reranked |= event.reranked
        merged = [passages[n] for n in sorted(passages)]
        yield EvidenceEvent(passages=merged, reranked=reranked, seconds=watch.all()["total"])
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
                elif isinstance(event, FoldEvent):
                    yield event.model_copy(update={"start": event.start + at})
                    answer = answer[: event.start + at]
                    continue
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
    citations, support = ([_moved(event, by) for event in events] for events in (done.citations, done.support))
    return done.model_copy(update={"citations": citations, "support": support})


def _together(endings: Sequence[DoneEvent], answer: str, watch: Stopwatch) -> DoneEvent:
    """One ending: answered where a part was, refused only where all were."""
    statuses = {ending.status for ending in endings}
    status: Status = "answered" if "answered" in statuses else "quoted" if "quoted" in statuses else "refused"
    kinds = {ending.answer_kind for ending in endings if ending.status != "refused"}
    kind: AnswerKind | None = (
        "unanswerable" if status == "refused" else kinds.pop() if len(kinds) == 1 else "abstractive"
    )
    steps = {
        name: sum(ending.seconds.get(name, 0.0) for ending in endings) for ending in endings for name in ending.seconds
    }
    chances = [ending.answerable for ending in endings if ending.answerable is not None]
    return endings[0].model_copy(
        update={
            "status": status,
            "answer": answer,
            "finish_reason": "length" if any(ending.finish_reason == "length" for ending in endings) else "stop",
            "citations": [cited for ending in endings for cited in ending.citations],
            "support": [judged for ending in endings for judged in ending.support],
            "dropped_citations": sum(ending.dropped_citations for ending in endings),
            "prompt_tokens": sum(ending.prompt_tokens for ending in endings),
            "completion_tokens": sum(ending.completion_tokens for ending in endings),
            "seconds": {**steps, **watch.all()},
            "warning": " ".join(dict.fromkeys(ending.warning for ending in endings if ending.warning)),
            "doubted": any(ending.doubted for ending in endings),
            "folded": "\n\n".join(ending.folded for ending in endings if ending.folded),
            "answerable": min(chances, default=None),
            "answer_kind": kind,
        }
    )
