"""Playing a recorded turn again: what is asked the same comes from the record, what is asked anew is done.

The turn runs against the stand-ins of `server.replay`, so a change propagates exactly as far as it changes an input.
The steps in between (evidence, refusal, prompt, citations) are cheap and are computed again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, cast

from index.documents import Hit, Passage, Query, Where
from rewriter.protocol import Conversation, Message, Rewrite, Term
from server.settings import Settings
from server.store.records import Trace, TraceStep
from server.turn.events import Event, Evidence, EvidenceEvent, Stopwatch, tell_evidence
from server.turn.evidence import SentencePlace
from server.turn.models import AnswerStyle, PromptMessage, TurnModels, TurnPrompt
from server.turn.run import TurnEngine, TurnInput
from server.turn.search import ReadPage, Searchable, SearchPlan, TurnSearch
from server.turn.support import SupportScorer
from text.prompts import QuestionContext
from text.recorder import current, plain

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk, BaseMessage

    from index.rerank import Reranker
    from server.turn.support import PairModel


class ReplayError(Exception):
    """A record from which a turn cannot be played again, or a change that cannot be made."""


def find_step(trace: Trace, name: str, inputs: object = None) -> TraceStep | None:
    """The first step of that name, or the one that was given just that."""
    return next((step for step in steps_of(trace.steps, name) if inputs is None or plain(inputs) == step.inputs), None)


def steps_of(steps: Sequence[TraceStep], name: str) -> Iterator[TraceStep]:
    """Every step of that name that went well, those of parts too."""
    for step in steps:
        if step.name == name and not step.error:
            yield step
        yield from steps_of(step.calls, name)


def passages_of(step: TraceStep) -> list[dict[str, Any]]:
    return list(step.output["passages"])


def _hits_of(step: TraceStep, passages: Iterable[Passage]) -> list[Hit] | None:
    """The hits that a step gave, of these passages; None where one of them is missing."""
    by_id = {passage.id: passage for passage in passages}
    recorded = passages_of(step)
    if any(hit["id"] not in by_id for hit in recorded):
        return None
    return [Hit(by_id[hit["id"]], hit["score"], hit["ranks"], hit["relevance"]) for hit in recorded]


@dataclass(frozen=True, slots=True)
class ReplayChanges:
    """Changes to apply: the rewrite, evidence to `add` (ids of passages or documents) and to `drop` (numbers; or all
    others, with `alone`), the instructions of the model, and whether there is `another_model`. Other settings are the
    engine's own."""

    rewrite: str = ""
    add: tuple[str, ...] = ()
    drop: tuple[int, ...] = ()
    alone: bool = False
    prompt: str = ""
    another_model: bool = False


@dataclass(frozen=True, slots=True)
class _Record:
    """A recorded turn and what is asked where something must be done anew; a `ModelSource`."""

    trace: Trace
    changes: ReplayChanges
    reranker: Callable[[], Reranker | None]
    pairs: Callable[[], PairModel | None]
    models: Callable[[], Awaitable[TurnModels]]

    async def of_turn(self, answer_tokens: int | None = None, group: str = "") -> TurnModels:
        """The stand-ins; another model is at work at once."""
        name, model = self.trace.engine, None
        if self.changes.another_model:
            now = await self.models()
            name, model = now.name, now.chat_model
        elif name != "none":
            model = cast("BaseChatModel", _RecordedModel(self))
        reranker = _RecordedReranker(self) if self.trace.values.get("reranker") else None
        style: AnswerStyle = "full" if self.trace.values.get("style") == "full" else "short"
        pairs = await asyncio.to_thread(self.pairs) if model is not None else None
        rewriter = _RecordedRewriter(self.trace, self.changes.rewrite)
        return TurnModels(rewriter, reranker, model, name, style, pairs=pairs)

    async def of_search(self, group: str = "") -> TurnModels:
        return await self.of_turn()


class _RecordedRewriter:
    """Gives the rewrite of then, or the one that is tried."""

    def __init__(self, trace: Trace, another: str) -> None:
        self._trace, self._another = trace, another
        step = find_step(trace, "rewrite")
        self.name = str(step.values["rewriter"]) if step else "none"

    def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
        # Of a question that is answered in parts, the whole; a reply to a question back comes resolved.
        if self._another and (question == self._trace.question or "split" not in self._trace.values):
            return Rewrite(self._another, "rewrite", confidence=1.0)
        # Parts of a question are rewritten too.
        inputs = {"question": question, "history": conversation.messages}
        step = find_step(self._trace, "rewrite", inputs) or find_step(self._trace, "rewrite")
        assert step is not None
        current().label(replayed="record")
        recorded = {name: value for name, value in step.output.items() if name != "variants"}
        return Rewrite(**{**recorded, "expansion": tuple(Term(**term) for term in recorded["expansion"])})


class _RecordedSearch:
    """A collection that finds what it found then, where it is asked the same and still has those passages."""

    def __init__(self, trace: Trace, collection: Searchable) -> None:
        self._trace, self._collection = trace, collection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collection, name)

    def search(
        self, queries: Sequence[Query], k: int = 20, where: Where | None = None, depth: int = 100, rrf_k: int = 60
    ) -> list[Hit]:
        inputs = {"queries": queries, "k": k, "depth": depth, "rrf_k": rrf_k, "where": where}
        if (step := find_step(self._trace, "search", inputs)) is not None:
            documents = dict.fromkeys(hit["document_id"] for hit in passages_of(step))
            hits = _hits_of(step, (passage for document in documents for passage in self.passages(document)))
            if hits is not None:
                current().label(replayed="record")
                return hits
        return self._collection.search(queries, k=k, where=where, depth=depth, rrf_k=rrf_k)


class _RecordedReranker:
    """A cross-encoder that orders as it did then, where it is given the same."""

    def __init__(self, record: _Record) -> None:
        self._record = record
        values = record.trace.values
        self.reads_conversations = bool(values.get("reads_conversations"))
        self.name = str(values["reranker"])

    @property
    def reader(self) -> Reranker | None:
        real = self._record.reranker()
        return real and real.reader

    def rerank(
        self,
        question: str,
        hits: Sequence[Hit],
        seconds: float,
        top: int = 20,
        weight: float = 1.0,
        context: QuestionContext | None = None,
        alone: Collection[str] = (),
    ) -> list[Hit]:
        inputs = {"question": question, "weight": weight, "top": top, "context": context}
        step, ids = find_step(self._record.trace, "rerank", inputs), [hit.passage.id for hit in hits]
        searches = steps_of(self._record.trace.steps, "search")
        read = any([passage["id"] for passage in passages_of(search)] == ids for search in searches)
        if step is not None and read and (ordered := _hits_of(step, (hit.passage for hit in hits))) is not None:
            current().label(replayed="record")
            return ordered
        real = self._record.reranker()
        if real is None:
            raise ReplayError("A cross-encoder is asked something else than then, and there is none now.")
        return real.rerank(question, hits, seconds, top=top, weight=weight, context=context, alone=alone)


class _RecordedModel:
    """A model that says what it said then, in the same pieces, where it is sent the same."""

    def __init__(self, record: _Record) -> None:
        self._record = record

    async def astream(self, messages: Sequence[BaseMessage], **options: Any) -> AsyncIterator[AIMessageChunk]:
        from langchain_core.messages import AIMessageChunk
        from langchain_core.messages.ai import UsageMetadata

        texts = [str(message.content) for message in messages]
        steps = steps_of(self._record.trace.steps, "generate")
        step = next((step for step in steps if prompt_texts(step.prompt) == texts), None)
        if step is None:
            real = (await self._record.models()).chat_model
            if real is None:
                raise ReplayError("The model is asked something else than then, and none is there: name one (--model).")
            async for chunk in real.astream(list(messages), **options):
                yield chunk
            return
        values = step.values
        metadata = {name: values[name] for name in ("parameters", "mean_logprob", "logprobs") if name in values}
        current().label(replayed="record")
        current().record(**metadata)
        text, pieces = step.output["text"], step.output["pieces"]
        read, written = values["prompt_tokens"], values["completion_tokens"]
        cost = UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
        ended = {"finish_reason": values.get("finish_reason", "")}
        for n, length in enumerate(pieces, start=1):
            last = n == len(pieces)
            yield AIMessageChunk(
                content=text[:length], response_metadata=ended if last else {}, usage_metadata=cost if last else None
            )
            text = text[length:]


def prompt_texts(parts: Sequence[Mapping[str, Any]]) -> list[str]:
    """The messages of a recorded prompt: its parts joined."""
    texts: dict[int, str] = {}
    for part in parts:
        texts[part["message"]] = texts.get(part["message"], "") + str(part.get("literal", part.get("value", "")))
    return list(texts.values())


async def replay(
    trace: Trace,
    *,
    collection: Callable[[str], Searchable],
    reranker: Callable[[], Reranker | None],
    models: Callable[[], Awaitable[TurnModels]],
    pairs: Callable[[], PairModel | None] = lambda: None,
    settings: Settings,
    changes: ReplayChanges = ReplayChanges(),
) -> list[Event]:
    """The events of the turn as it would be now; its calls are recorded below the current one.

    `reranker` and `pairs` (which may block) and `models` are asked only where something must be done anew. Raises
    ReplayError.
    """
    if not trace.question:
        raise ReplayError(f"The trace of turn {trace.turn_id} holds no texts (trace.content); nothing can be asked.")
    if (rewrite := find_step(trace, "rewrite")) is None:
        raise ReplayError(f"The turn {trace.turn_id} searched for nothing; there is nothing to play again.")
    engine = _ReplayEngine(
        collection=lambda name: cast("Searchable", _RecordedSearch(trace, collection(name))),
        models=_Record(trace, changes, reranker, pairs, models),
        settings=settings,
    )
    engine.trace, engine.changes = trace, changes
    request, page = trace.request, trace.request.get("page") or {}
    history = rewrite.inputs.get("history", [])
    turn = TurnInput(
        question=trace.question,
        collection=trace.collection,
        conversation=Conversation(tuple(Message(message["role"], message["text"]) for message in history)),
        search_for=None if changes.rewrite else request.get("search_for"),
        where=request.get("where"),
        page=ReadPage(page.get("words", ""), tuple(page.get("within", ()))),
        turn_id=trace.turn_id,
        conversation_id=trace.conversation_id,
        answer_tokens=request.get("answer_tokens"),
        split_questions="split" in trace.values,
    )
    events = list[Event]()
    async for event in engine.run(turn):
        if isinstance(event, EvidenceEvent):
            with current().begin("evidence") as step:
                tell_evidence(step, event)
        events.append(event)
    return events


class _ReplayEngine(TurnEngine):
    """A turn whose evidence and prompt may be changed on the way."""

    trace: Trace
    changes: ReplayChanges

    def _search(self, models: TurnModels) -> TurnSearch:
        search = super()._search(models)
        parts = {part.name: getattr(search, part.name) for part in fields(search)}
        return _ReplaySearch(**parts, trace=self.trace, changes=self.changes)

    def prompted(self, prompt: TurnPrompt) -> TurnPrompt:
        if not (changed := self.changes.prompt):
            return prompt
        return replace(prompt, messages=(PromptMessage("system", changed), *prompt.messages[1:]), version="replay")


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReplaySearch(TurnSearch):
    """A search whose hits may be changed."""

    trace: Trace = field(repr=False)
    changes: ReplayChanges = field(repr=False)

    def hits(
        self, searched: Searchable, plan: SearchPlan, watch: Stopwatch, *, k: int, where: Where | None = None
    ) -> tuple[list[Hit], bool]:
        hits, reranked = TurnSearch.hits(self, searched, plan, watch, k=k, where=where)
        recorded, changes = find_step(self.trace, "evidence"), self.changes
        evidence = [passage["passage_id"] for passage in passages_of(recorded)] if recorded else []
        for number in changes.drop:
            if not 1 <= number <= len(evidence):
                raise ReplayError(f"There is no source {number}: the turn had {len(evidence)}.")
        dropped = {evidence[number - 1] for number in changes.drop}
        best = hits[0].score if hits else 1.0
        added = [Hit(passage, best, {"added": 1}) for name in changes.add for passage in _named(name, hits, searched)]
        names = {hit.passage.id for hit in added}
        if added and reranked and self.reranker is not None:
            seconds, inputs = self.settings.retrieval.profile.rerank_seconds, self.reading(plan, self.reranker)
            # Read as the others were, for what is thought of them decides whether there is an answer.
            added = [replace(hit, score=best) for hit in self.reranker.rerank(hits=added, seconds=seconds, **inputs)]
        remaining = [] if changes.alone else [hit for hit in hits if hit.passage.id not in dropped | names]
        return [*added, *remaining], reranked

    def sentence_chances(
        self, plan: SearchPlan, passages: Sequence[Evidence], hits: Sequence[Hit], scorer: SupportScorer
    ) -> dict[SentencePlace, float]:
        inputs = {
            "question": plan.asked,
            "matching": plan.matching,
            "passages": [evidence.passage_id for evidence in passages],
        }
        step = find_step(self.trace, "sentences", inputs)
        if step is None:
            return TurnSearch.sentence_chances(self, plan, passages, hits, scorer)
        with current().begin("sentences", step.source) as this:
            this.inputs(**step.inputs)
            this.output(step.output)
            this.label(replayed="record")
        return {(n, at): chance for n, at, chance in step.output["result"]}


def _named(name: str, hits: Sequence[Hit], searched: Searchable) -> list[Passage]:
    """The passage of that id, or the passages of the document of that id. Raises ReplayError."""
    if passages := [hit.passage for hit in hits if hit.passage.id == name]:
        return passages
    collection: Any = searched
    of_document: list[Passage] = collection.passages(name)
    if not of_document:
        every = (passage for info in collection.documents() for passage in collection.passages(info.id))
        of_document = [passage for passage in every if passage.id == name][:1]
    if not of_document:
        raise ReplayError(f"There is no passage and no document {name!r} in the collection.")
    return of_document
