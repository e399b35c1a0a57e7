"""Playing a recorded turn again: what is asked the same comes from the record, what is asked anew is done.

What a turn asks stands behind the stand-ins of `server.recorded`, so a change runs on exactly as far as it changes
anything. What decides in between (evidence, refusal, prompt, citations) is cheap and done again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from index.query import Hit, Passage, Where
from rewriter.protocol import Conversation, Message
from server.recorded import RecordedModels, RecordedSearch, ReplayError, history_of, passages_of, step_of
from server.settings import LegsSettings, Settings
from server.store.records import Trace
from server.turn.events import Event, EvidenceEvent
from server.turn.models import TurnModels
from server.turn.prompt import PromptMessage, TurnPrompt
from server.turn.run import TurnEngine, TurnInput
from server.turn.search import Searchable, SearchPlan, TurnSearch
from server.turn.steps import Stopwatch, tell_evidence
from text.asking import QuestionContext
from text.recorder import current

if TYPE_CHECKING:
    from index.rerank import Reranker


@dataclass(frozen=True, slots=True)
class ReplayChanges:
    """What is to be different: the rewrite, evidence to `add` (ids of passages or documents) and to `drop` (numbers; or
    all others, with `alone`), the instructions of the model, weights of `legs` (`typed.lexical` and the like), and
    whether there is `another_model`. Other settings are the engine's own."""

    rewrite: str = ""
    add: tuple[str, ...] = ()
    drop: tuple[int, ...] = ()
    alone: bool = False
    prompt: str = ""
    another_model: bool = False
    legs: Mapping[str, float] = field(default_factory=dict)


def demand_record(trace: Trace) -> None:
    """Raise ReplayError where the turn cannot be played from its trace."""
    if not trace.question:
        raise ReplayError(f"The trace of turn {trace.turn_id} holds no texts (trace.content); nothing can be asked.")
    rewrite = step_of(trace, "rewrite")
    if rewrite is None or not all(isinstance(one, dict) for one in history_of(rewrite)):
        raise ReplayError(f"The trace of turn {trace.turn_id} was kept by an older version; ask its question again.")


async def replay(
    trace: Trace,
    *,
    collection: Callable[[str], Searchable],
    reranker: Callable[[], Reranker | None],
    models: Callable[[], Awaitable[TurnModels]],
    settings: Settings,
    changes: ReplayChanges = ReplayChanges(),
) -> list[Event]:
    """The events of the turn as it would be now; its calls are recorded below the current one.

    `reranker` (which may block) and `models` are asked only where something must be done anew. Raises ReplayError.
    """
    demand_record(trace)
    engine = _ReplayEngine(
        collection=lambda name: cast("Searchable", RecordedSearch(trace, collection(name))),
        models=RecordedModels(trace, changes.rewrite, changes.another_model, reranker, models),
        settings=_weighed(settings, changes.legs),
    )
    engine.trace, engine.changes = trace, changes
    request: Mapping[str, Any] = trace.request
    history = history_of(step_of(trace, "rewrite"))
    events = list[Event]()
    turn = TurnInput(
        question=trace.question,
        collection=trace.collection,
        conversation=Conversation(tuple(Message(one["role"], one["text"]) for one in history)),
        search_for=None if changes.rewrite else request.get("search_for"),
        where=request.get("where"),
        turn_id=trace.turn_id,
        conversation_id=trace.conversation_id,
        answer_tokens=request.get("answer_tokens"),
        split_questions="split" in trace.attributes,
    )
    async for event in engine.run(turn):
        if isinstance(event, EvidenceEvent):
            with current().begin("evidence") as step:
                tell_evidence(step, event)
        events.append(event)
    return events


def _weighed(settings: Settings, weights: Mapping[str, float]) -> Settings:
    """Settings with other weights of legs. Raises ReplayError."""
    legs = settings.retrieval.legs.model_dump()
    for name, weight in weights.items():
        leg, _, ranking = name.partition(".")
        if ranking not in ("lexical", "dense") or not isinstance(legs.get(leg), dict):
            raise ReplayError(f"There is no weight {name[:80]!r}; one is called typed.lexical.")
        legs[leg][ranking] = weight
    try:
        other = LegsSettings.model_validate(legs)
    except ValidationError as error:
        raise ReplayError(f"The weights do not hold: {error.errors()[0]['msg']}.") from error
    return settings.model_copy(update={"retrieval": settings.retrieval.model_copy(update={"legs": other})})


class _ReplayEngine(TurnEngine):
    """A turn whose evidence and prompt may be changed on the way."""

    trace: Trace
    changes: ReplayChanges

    def _search(self, models: TurnModels) -> TurnSearch:
        found = super()._search(models)
        return _ReplaySearch(
            collection=found.collection,
            rewriter=found.rewriter,
            settings=found.settings,
            reranker=found.reranker,
            trace=self.trace,
            changes=self.changes,
        )

    def prompted(self, prompt: TurnPrompt) -> TurnPrompt:
        told = self.changes.prompt
        if not told:
            return prompt
        return replace(prompt, messages=(PromptMessage("system", told), *prompt.messages[1:]), version="replay")


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReplaySearch(TurnSearch):
    """A search whose hits may be changed."""

    trace: Trace = field(repr=False)
    changes: ReplayChanges = field(repr=False)

    def hits(
        self, searched: Searchable, plan: SearchPlan, watch: Stopwatch, *, k: int, where: Where | None = None
    ) -> tuple[list[Hit], bool]:
        found, reranked = TurnSearch.hits(self, searched, plan, watch, k=k, where=where)
        shown, changes = step_of(self.trace, "evidence"), self.changes
        evidence = [one["passage_id"] for one in passages_of(shown)] if shown else []
        for number in changes.drop:
            if not 1 <= number <= len(evidence):
                raise ReplayError(f"There is no source {number}: the turn had {len(evidence)}.")
        dropped = {evidence[number - 1] for number in changes.drop}
        best = found[0].score if found else 1.0
        added = [Hit(one, best, {"added": 1}) for name in changes.add for one in _named(name, found, searched)]
        names = {hit.passage.id for hit in added}
        if added and reranked and self.reranker is not None:
            seconds, asked = self.settings.retrieval.rerank_seconds, self.reading(plan, self.reranker)
            # Read as the others were, for what is thought of them decides whether there is an answer.
            added = [replace(hit, score=best) for hit in self.reranker.rerank(hits=added, seconds=seconds, **asked)]
        kept = [] if changes.alone else [hit for hit in found if hit.passage.id not in dropped | names]
        return [*added, *kept], reranked

    def read(self, question: str, texts: Sequence[str], context: QuestionContext | None = None) -> list[float | None]:
        asked = {"question": question, "texts": texts}
        # Older traces know of no context.
        step = step_of(self.trace, "read", {**asked, "context": context})
        if step is None and context is None:
            step = step_of(self.trace, "read", asked)
        if step is None:
            return TurnSearch.read(self, question, texts, context)
        with current().begin("read", step.source) as this:
            this.inputs(**step.inputs)
            this.output(step.outputs)
            this.label(replayed="record")
        known: Any = step.outputs["result"]
        return list(known)


def _named(name: str, found: Sequence[Hit], searched: Searchable) -> list[Passage]:
    """The passage of that id, or the passages of the document of that id. Raises ReplayError."""
    if known := [hit.passage for hit in found if hit.passage.id == name]:
        return known
    collection = cast("Any", searched)
    of_document: list[Passage] = collection.passages(name)
    if not of_document:
        every = (one for info in collection.documents() for one in collection.passages(info.id))
        of_document = [one for one in every if one.id == name][:1]
    if not of_document:
        raise ReplayError(f"There is no passage and no document {name!r} in the collection.")
    return of_document
