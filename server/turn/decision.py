"""Decide how a question is answered before a model writes: part by part or whole; answer, ask back or refuse.

`split_question` reads the English form of a question that asks for several things: several questions in a row, two
questions or tasks joined by *and*, and two things compared. `covered` tells whether one section answers all parts.
`merge_part_events` joins the turns of the parts into one stream.

How likely each outcome is right is told from the question and its search. A multinomial logistic model over signals
that a turn has anyway: how much of the question's words the first passages hold, how far the rankings agree, what a
cross-encoder said, how much the question leans on the conversation, how it is put, and the vector that it was searched
by. Support by the documents can only raise the chance of answering: those weights are bounded when the model is fitted.
`python -m papers.answerability fit` writes `decision.json`; `docs/lab/evaluation.md` holds what it is worth. Four
models are kept: for passages that a cross-encoder has read or has not, each with the question's vector and without.

`RetrievalProfile` holds the thresholds `answerable` and `ask_back`; `server.turn.run` acts on the outcome.
"""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from statistics import pstdev
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import regex

from index.documents import Hit
from rewriter.protocol import Conversation, Message
from server.settings.profile import RetrievalProfile
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
    Stopwatch,
    SupportEvent,
    TokenEvent,
)
from server.turn.search import PAGE_VARIANT, Searchable, SearchPlan
from server.turn.system_messages import unformatted
from text.languages import ENGLISH, analysis, language_of
from text.recorder import Call, current
from text.words import stems

if TYPE_CHECKING:
    from index.encoders import Vectors


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


def covered(parts: Sequence[QuestionPart], hits: Sequence[Hit]) -> bool:
    """Whether one section among the first passages holds the words of every part, so that it may answer them all."""
    held: dict[tuple[str, tuple[str, ...]], set[str]] = {}
    for hit in hits[:READ]:
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


Outcome: TypeAlias = Literal["answer", "ask", "refuse"]
OTHERS: tuple[Literal["ask", "refuse"], ...] = ("ask", "refuse")
"""The outcomes that have weights; answering is what they are compared with."""

READ = 5
"""Passages looked at."""

FAR = -8.0
"""Nothing is quoted below a refusal where the cross-encoder finds each passage less relevant: `far`."""
UNSPOKEN, NAMED = -9.0, 0.3
"""The documents do not speak of an English question where each passage is less relevant than the first, and the first
passages together hold a smaller share of its words than the second."""

SUPPORT = ("best coverage", "joint coverage", "agreement")
RELEVANCE = ("best relevance", "relevance spread")
MONOTONE = frozenset((*SUPPORT, "best relevance"))
"""More of these never makes an answer less likely."""

_CUES: Mapping[str, str] = {
    "question word": "how what which where when who why",
    "trouble": "why error errors fails failed failing broken doesn't doesnt",
    "first person": "i my our we me mine",
    "again": "still now again keeps same",
    "denial": "not no never nothing don't dont doesn't doesnt can't cant won't isnt isn't",
    "advice": "should best better recommend right",
}
_COMPLAINT = regex.compile(
    r"""\b(?:
    (?:(?:is|are|was|do|does|did|has|ca|wo)n['’]?t|(?:is|are|was|do|does|did|has|can|will)\s+not)
      \s+(?:work|start|help|run|render|load|open|go)\w*
    |not\s+(?:working|good)|no\s+(?:luck|change|difference|effect|success)
    |nothing\s+(?:is\s+)?(?:happen|chang|work|help|com|different)\w*
    |fail(?:s|ed)|crash(?:es|ed)|broke
    |(?:still|now|just|it|they|keeps?|looks?|seems?|is|are|was)\s+(?:\w+\s+){0,2}
      (?:off\b|(?:fail|crash|broke|complain|warn|wrong|weird|slow|dying|empty|strange|odd|stuck|hang|error)\w*)
    )""",
    regex.IGNORECASE | regex.VERBOSE,
)
_SAYS_MORE = regex.compile(
    r"""[?？"“”`:]|^\W*(?:is|are|was|were)\b|\b(?:why|how|what|which|where|when|who|whats|hows)\b
    |\b(?:can|could|should|do|does|is|are|am)\s+(?:i|we|you|it|that)\b""",
    regex.IGNORECASE | regex.VERBOSE,
)
COMPLAINT_WORDS = 9
"""A longer complaint says what happens."""
_YES_OR_NO = "is are can does do could will should"
_WORD = regex.compile(r"[\p{L}\p{N}]+(?:['’][\p{L}]+)*")

BASE = (
    *SUPPORT,
    *("first by typed", "length", "typed length", "words", "headings", "follow-up", "leaning"),
    *("question mark", "yes or no", *_CUES),
)
KINDS = {"unread": BASE, "read": (*BASE, *RELEVANCE)}
"""The signals of the models, by whether a cross-encoder read passages."""

WITH_QUESTION = " with question"
"""Ends the name of a model that reads the question's vector too."""


@dataclass(frozen=True, slots=True)
class Chances:
    """How likely each outcome is the right one; they sum to 1."""

    answer: float
    ask: float
    refuse: float

    @property
    def sufficient(self) -> float:
        """The probability that the passages answer, be it only after asking back."""
        return 1 - self.refuse


@dataclass(frozen=True, slots=True)
class DecisionModel:
    """For `ask` and `refuse`: what to add, and the weight of each signal by name, compared with answering.

    `question` holds the weights of the dimensions of the question's vector, where the model reads it.
    """

    bias: Mapping[str, float]
    weights: Mapping[str, Mapping[str, float]]
    question: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def chances(self, signals: Mapping[str, float], vector: Vectors | None = None) -> Chances:
        """By the softmax of the sums; a signal the model needs must be there, and the vector if it reads one."""
        sums = {
            name: self.bias[name] + sum(weight * signals[signal] for signal, weight in self.weights[name].items())
            for name in OTHERS
        }
        if self.question and vector is not None:
            sums = {name: value + float(np.dot(self.question[name], vector)) for name, value in sums.items()}
        odds = {name: math.exp(max(-30.0, min(30.0, value))) for name, value in sums.items()}
        total = 1 + sum(odds.values())
        return Chances(1 / total, odds["ask"] / total, odds["refuse"] / total)


@dataclass(frozen=True, slots=True)
class DecisionModels:
    """Models by kind, and the name of the encoder whose vectors some of them read; empty where none does."""

    encoder: str
    by_kind: Mapping[str, DecisionModel]


def language_of_hits(hits: Sequence[Hit], setting: str) -> str:
    """The language by whose stems words are compared with the passages, by `index.language`."""
    return analysis(setting, " ".join(hit.passage.text for hit in hits[:READ]))


def signals(plan: SearchPlan, hits: Sequence[Hit], language: str = ENGLISH) -> dict[str, float]:
    """Return the features of the model, each about 0 to 1; `best relevance` and `relevance spread` only where hits were
    read.

    `best coverage` and `joint coverage`: the share of the searched question's content words in the best of the first
    passages, and in all of them (rare words count more; 0.5 of a question without any). `agreement`: the mean over all
    rankings of the reciprocal rank they gave the first passage; `first by typed` that over the rankings by the question
    as typed. `length`, `typed length`: content words of what was searched for and typed. `headings`: sections among the
    first passages. `follow-up`: whether something was said before. `leaning`: the rewriter's belief that the question
    needs its history. The others tell how the question is put, by English words.
    """
    first = hits[:READ]
    searched = plan.variants.rerank_question or plan.question
    wanted = set(stems(searched, language))
    held = [frozenset(stems(hit.passage.indexed_text, language)) for hit in first]
    weights = {word: math.log(1 + len(held) / (0.5 + sum(word in words for words in held))) for word in wanted}
    total = sum(weights.values())
    shares = [sum(weights[word] for word in wanted & words) / total if total else 0.5 for words in held]
    every = frozenset[str]().union(*held)
    typed = [word.replace("’", "'") for word in _WORD.findall(plan.question.casefold())]
    # "How do I turn it off again?" is no trouble.
    cued = [word for word in typed if word != "again" or "how" not in typed]
    values = {
        "best coverage": max(shares, default=0.0),
        "joint coverage": (sum(weights[word] for word in wanted & every) / total if total else 0.5) if held else 0.0,
        "agreement": _mean_reciprocal_rank(hits, ""),
        "first by typed": _mean_reciprocal_rank(hits, "typed"),
        "length": min(len(wanted), 12) / 12,
        "typed length": min(len(set(stems(plan.question, language))), 12) / 12,
        "words": min(len(typed), 25) / 25,
        "headings": len({(hit.passage.document_id, hit.passage.heading) for hit in first}) / READ,
        "follow-up": float(any(query.name not in ("typed", PAGE_VARIANT) for query in plan.variants.queries)),
        "leaning": 0.5 if plan.rewrite.history_probability is None else plan.rewrite.history_probability,
        "question mark": float("?" in plan.question or "？" in plan.question),
        "yes or no": _cue(_YES_OR_NO, typed[:4]),
        **{name: _cue(cues, cued) for name, cues in _CUES.items()},
    }
    # Scores of cross-encoders are logits, about -10 to 10.
    if read := [_squeezed(hit.relevance) for hit in hits if hit.relevance is not None]:
        values["best relevance"] = max(read)
        values["relevance spread"] = pstdev(read)
    return values


def chances(
    plan: SearchPlan, hits: Sequence[Hit], language: str = ENGLISH, searched: Searchable | None = None
) -> Chances:
    """Return the packaged models' probabilities for a search; there is nothing to answer from where it is empty, or
    where the documents do not speak of the question.

    The collection that was searched knows the question's vector. Without it, or with one of another encoder than the
    models were fitted on, they go by the signals alone.
    """
    if not hits:
        return Chances(0.0, 0.0, 1.0)
    values, packaged = signals(plan, hits, language), models()
    far = best_relevance(hits) < UNSPOKEN and values["joint coverage"] < NAMED
    # The cross-encoder learnt from English.
    if far and language == ENGLISH and language_of(plan.question) in ("", ENGLISH):
        return Chances(0.0, 0.0, 1.0)
    kind = "read" if "best relevance" in values else "unread"
    vector = searched.question_vector(plan.question, packaged.encoder) if searched is not None else None
    return packaged.by_kind[kind if vector is None else kind + WITH_QUESTION].chances(values, vector)


def best_relevance(hits: Sequence[Hit]) -> float:
    """Return the highest relevance of the hits, a logit; infinite where no cross-encoder read them."""
    return max((hit.relevance for hit in hits if hit.relevance is not None), default=math.inf)


def is_bare_complaint(question: str) -> bool:
    """Return whether an English message says that something is wrong ("it still fails"), and neither what nor more.

    Of the written dialogs' messages 45 of 110 that had to be asked back are so, and 7 of 3,660 others.
    """
    brief = len(_WORD.findall(question)) <= COMPLAINT_WORDS
    return brief and bool(_COMPLAINT.search(question)) and not _SAYS_MORE.search(question)


def decide(chances: Chances, profile: RetrievalProfile, *, may_ask: bool = True, complaint: bool = False) -> Outcome:
    """Return the outcome by the profile's thresholds; of two that are passed, the likelier.

    A message that is a bare `complaint` is asked back about, whatever its chances, unless nothing speaks of it.
    """
    if complaint and may_ask and profile.ask_back > 0 and chances.refuse < 1:
        return "ask"
    asks = may_ask and chances.ask >= profile.ask_back > 0
    refuses = chances.sufficient < profile.answerable
    if asks and (not refuses or chances.ask >= chances.refuse):
        return "ask"
    return "refuse" if refuses else "answer"


@cache
def models() -> DecisionModels:
    """The packaged models."""
    packaged = json.loads(files("server.turn").joinpath("decision.json").read_text("utf-8"))
    return DecisionModels(
        packaged["encoder"], {name: DecisionModel(**model) for name, model in packaged["models"].items()}
    )


def _cue(cues: str, words: Sequence[str]) -> float:
    return float(not set(cues.split()).isdisjoint(words))


def _squeezed(score: float) -> float:
    return max(-1.0, min(1.0, score / 12)) if math.isfinite(score) else 0.0


def _mean_reciprocal_rank(hits: Sequence[Hit], variant: str) -> float:
    """Of the first passage, over the rankings by one query variant; over all for an empty name."""
    names = {name for hit in hits for name in hit.ranks if "/" in name and name.startswith(variant)}
    rankings = {name for name in names if not name.startswith(f"{PAGE_VARIANT}/")}
    if not rankings:
        return 0.0
    return sum(1 / hits[0].ranks[name] for name in rankings if name in hits[0].ranks) / len(rankings)
