"""`TurnService`: ask, search, suggest, and read stored turns, their traces and feedback."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from index.documents import MetadataValue, Where
from rewriter.protocol import Message, PassThroughRewriter
from server.access import Ownership
from server.chat.base import (
    MAX_LISTED,
    MAX_QUERY_CHARS,
    InvalidRequest,
    NotFound,
    ServiceBase,
    Unavailable,
    checked_name,
    clean,
    found_or_missing,
    index_errors,
    requires,
    run_blocking,
)
from server.chat.conversations import ConversationService
from server.chat.documents import (
    CITED_SECONDS,
    EXAMPLES,
    FOLLOW_UPS,
    KEPT_SECONDS,
    REMEMBERED,
    SECONDS,
    TRIED,
    Suggestion,
    candidates_of,
    is_answered,
    suggestion,
)
from server.chat.limits import QueueSlot
from server.chat.running_turn import MAX_HISTORY_MESSAGES, RunningTurn, TurnRequest
from server.replay import ReplayChanges, ReplayError, replay
from server.store import turns
from server.store.records import (
    ConversationSummary,
    Feedback,
    FeedbackRecord,
    Rating,
    StoredTurn,
    Trace,
    TraceSummary,
    View,
)
from server.tracing import Tracing, grafted, restored
from server.turn.events import DoneEvent, Event, Evidence, RewriteEvent, TurnFailed
from server.turn.evidence import numbered
from server.turn.models import TurnModels
from server.turn.search import NO_PAGE, ReadPage
from server.turn.system_messages import history_for_model
from text.files import NAME_RULE, is_name
from text.sanitize import is_showable


class SearchResult(View):
    """Evidence that a turn would receive, and more of it."""

    rewrite: RewriteEvent
    passages: list[Evidence]
    reranked: bool
    seconds: float


MAX_FILTER_KEYS = 20
MAX_FILTER_VALUES = 200
MAX_CHOICES, MAX_CHOICE_CHARS = 100, 60
MAX_RESULTS = 200
HISTORY_CHARS_PER_TURN = 8
"""A message of the history may be this many times as long as a question."""
MAX_COMMENT_CHARS = 4000
MAX_REASON_CHARS = 200
NO_MODEL = "none"


@dataclass(frozen=True, slots=True)
class ReplayedTurn:
    """A turn played again: its trace then and now, and its events now."""

    record: Trace
    trace: Trace
    events: list[Event]

    def keep(self, path: Path, answer: str = "") -> None:
        """Add the turn to a file as a case, in the form that `anaphora eval` and `diagnose` take: with `answer` as the
        right one, else the one given now. Raises OSError."""
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        rewrite = next((step for step in self.trace.steps if step.name == "rewrite"), None)
        inputs: Mapping[str, Any] = rewrite.inputs if rewrite else {}
        searched: Any = (rewrite and rewrite.output) or {}
        cited = [citation for event in self.events if event.type == "done" for citation in event.citations]
        name, n = self.record.turn_id, sum(json.loads(line)["id"].startswith(self.record.turn_id) for line in lines)
        row = {
            "id": f"{name}-{n + 1}" if n else name,
            "text": self.record.question,
            "question": self.record.question,
            "history": inputs.get("history", []),
            "rewrite": searched.get("text", ""),
            "answer": answer or self.trace.answer,
            "documents": list(dict.fromkeys(citation.document_id for citation in cited)),
            "relevant": list(dict.fromkeys(citation.passage_id for citation in cited)),
            "quotes": list(dict.fromkeys(citation.quote for citation in cited if citation.quote)),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


class TurnService(ServiceBase):
    """Turns of whoever acts: new ones and stored ones."""

    @requires("ask")
    async def ask(self, request: TurnRequest) -> AsyncIterator[Event]:
        """Answer a question as typed events, ending with exactly one `done` or `error`.

        Refusals (`InvalidRequest`, `NotFound`, `QueueFull`) are raised before the first event. Closing
        the iterator, or cancelling the task that reads it, stops the model; the turn is kept as
        interrupted with what had been shown.
        """
        running = await self.begin(request)
        try:
            async for event in running:
                yield event
        finally:
            await running.aclose()

    @requires("ask")
    async def begin(self, request: TurnRequest) -> RunningTurn:
        """Check a request, give it a place in the queue and store it; iterating the result runs it.

        For readers that must know of a refusal before they say anything; whoever calls this closes the
        result. Raises InvalidRequest, NotFound, QueueFull, LimitReached.
        """
        checked, ownership = await self._checked(request)
        await self.core.limits.require_tokens(self.principal)
        running = RunningTurn(self.core, checked, self._place(), ownership, self.principal)
        if checked.conversation_id is None:
            # No conversation can be missing, so nobody has to wait for the disk.
            running.storing = asyncio.create_task(running.store())
            return running
        try:
            if not await running.store():
                raise NotFound(f"There is no conversation {checked.conversation_id!r}.", code="conversation_not_found")
        except BaseException:
            await running.aclose()
            raise
        return running

    def _place(self) -> QueueSlot:
        """A place in the queue, within what whoever acts may have. Raises QueueFull, LimitReached."""
        at_most = self.core.limits.quota(self.principal, "concurrent_turns")
        return self.core.admission.enter(self.principal.account, at_most)

    @requires("ask")
    async def search(
        self,
        question: str,
        *,
        collection: str = "",
        history: Sequence[Message] = (),
        k: int = 20,
        where: Where | None = None,
        page: ReadPage = NO_PAGE,
        search_for: str | None = None,
    ) -> SearchResult:
        """Search as a turn would: rewrite, legs, fusion, rerank; best first. Takes a turn's place meanwhile."""
        request, ownership = await self._checked(
            TurnRequest(
                question=question,
                collection=collection,
                history=tuple(history),
                where=where,
                page=page,
                search_for=search_for,
            )
        )
        ticket = self._place()
        try:
            await ticket.wait()
            search = await self.core.engine.search(ownership.group)
            with index_errors():
                result = await search.search(
                    request.question,
                    collection=request.collection,
                    conversation=history_for_model(request.history or ()),
                    k=max(1, min(k, MAX_RESULTS)),
                    where=request.where,
                    page=page,
                    search_for=request.search_for,
                )
        except TurnFailed as error:
            raise Unavailable(str(error), code=error.code) from error
        finally:
            ticket.release()
        return SearchResult(
            rewrite=result.plan.event(),
            passages=[numbered(n, hit) for n, hit in enumerate(result.hits, start=1)],
            reranked=result.reranked,
            seconds=sum(result.seconds.values()),
        )

    async def _checked(self, request: TurnRequest) -> tuple[TurnRequest, Ownership]:
        """The request within the bounds of the settings, its collection filled in; and whose the turn is."""
        server = self.core.settings.server
        question = clean(request.question, server.max_question_chars, "question").strip()
        if not question:
            raise InvalidRequest("The question is empty.", code="empty_question", param="question")
        search_for = request.search_for
        if search_for is not None:
            search_for = clean(search_for, server.max_question_chars, "search_for").strip() or None
        history = request.history
        if history is not None:
            if request.conversation_id is not None:
                raise InvalidRequest("Give either a conversation or a history, not both.", param="history")
            if len(history) > MAX_HISTORY_MESSAGES:
                raise InvalidRequest(
                    f"The history has {len(history)} messages; {MAX_HISTORY_MESSAGES} are allowed. "
                    "Leave out the oldest.",
                    code="history_too_long",
                    param="history",
                )
            limit = server.max_question_chars * HISTORY_CHARS_PER_TURN
            history = tuple(Message(turn.role, clean(turn.text, limit, "history")) for turn in history)
        collection, model = request.collection, self.demand_choice(request.model)
        if request.conversation_id is not None:
            conversation = await self._of_conversation(request.conversation_id, request.regenerate_of)
            collection, model = collection or conversation.collection, model or conversation.model
        elif request.regenerate_of is not None:
            raise InvalidRequest("Only a turn of a conversation can have versions.", param="regenerate_of")
        collection = collection or await self.default_collection()
        ownership = await self.existing(collection)
        checked = request.model_copy(
            update={
                "question": question,
                "search_for": search_for,
                "history": history,
                "collection": collection,
                "model": model,
                "where": _checked_filter(request.where),
            }
        )
        return checked, ownership

    async def _of_conversation(self, conversation_id: str, regenerate_of: str | None) -> ConversationSummary:
        """A conversation that has the turn of which a new version is asked for, if one is named."""
        service = ConversationService(self.core, self.principal)
        await service.demand_change(conversation_id)
        if regenerate_of is None:
            return await service.summary(conversation_id)
        conversation = await service.get(conversation_id)
        versions = {version for turn in conversation.messages for version in turn.versions}
        if regenerate_of not in versions:
            raise NotFound(
                f"There is no turn {regenerate_of[:80]!r} in this conversation.",
                code="turn_not_found",
                param="regenerate_of",
            )
        return conversation

    @requires("read")
    async def get(self, turn_id: str) -> StoredTurn:
        """One turn as it is kept. Raises NotFound."""
        await self._note_read("turn.read", turn_id)
        return await self._turn(turn_id)

    async def _note_read(self, did: str, turn_id: str) -> None:
        """Note that somebody else's turn was read; nobody below an agent sees one."""
        if self.may("review"):
            owner = await self._read(turns.owner, turn_id, self.principal)
            if owner not in (None, self.principal.id):
                self.note(did, turn_id)

    @requires("rate")
    async def give_feedback(self, turn_id: str, rating: Rating, reason: str = "", comment: str = "") -> Feedback:
        """Keep a person's word on a turn; a second one replaces the first. Raises NotFound."""
        key = clean(turn_id, MAX_QUERY_CHARS, "turn_id")
        why, words = clean(reason, MAX_REASON_CHARS, "reason"), clean(comment, MAX_COMMENT_CHARS, "comment")
        return found_or_missing(await self._write(turns.rate, key, rating, why, words, self.principal), "turn", turn_id)

    @requires("rate")
    async def retract_feedback(self, turn_id: str) -> None:
        """Forget the feedback on a turn. Raises NotFound where there is none."""
        key = clean(turn_id, MAX_QUERY_CHARS, "turn_id")
        found_or_missing(await self._write(turns.retract_rating, key, self.principal), "feedback on turn", turn_id)

    @requires("ask")
    async def note_opened(self, turn_id: str, source: int) -> None:
        """Keep that whoever asked opened the source of this number. Raises NotFound."""
        key = clean(turn_id, MAX_QUERY_CHARS, "turn_id")
        noted = await self._write(turns.note_opened, key, source, self.principal)
        found_or_missing(noted, f"source {source} of turn", turn_id)

    @requires("review")
    async def feedback_records(self) -> list[FeedbackRecord]:
        """All feedback with its questions and answers, oldest first."""
        await self.account("feedback.export")
        return await self._read(turns.ratings, self.principal)

    @requires("review")
    async def trace(self, turn_id: str) -> Trace:
        """Return the trace of a turn. Raises NotFound where there is no trace (yet)."""
        key = clean(turn_id, MAX_QUERY_CHARS, "turn_id")
        trace = await self._read(turns.trace, key, self.principal)
        await self._note_read("turn.trace", key)
        return found_or_missing(trace, "trace of turn", turn_id)

    @requires("review")
    async def traces(self, *, collection: str = "", limit: int = 50) -> list[TraceSummary]:
        """The newest turns that left a trace, newest first."""
        limit = max(0, min(limit, MAX_LISTED))
        return await self._read(turns.traced, self.principal, collection, limit)

    @requires("review")
    async def replay(self, turn_id: str, changes: ReplayChanges, model: str = "") -> ReplayedTurn:
        """Play a turn again with something changed; nothing of it is stored.

        `model` is one of `llm.choices` that is to answer, or `none`. Raises InvalidRequest, NotFound.
        """
        record = await self.trace(turn_id)
        stored = await self.get(record.turn_id)
        ownership = await self.existing(record.collection)
        core = self.core

        if model:
            changes = replace(changes, another_model=True)
        chosen = core.models if model in ("", NO_MODEL) else core.chosen[self.demand_choice(model)]

        async def models() -> TurnModels:
            if model == NO_MODEL:
                return TurnModels(PassThroughRewriter())
            return await chosen.of_turn(None, ownership.group)

        # Of its own, so that nothing of it is sent, and its texts are there to be compared.
        tracing = Tracing(content=True)
        turn = tracing.begin_turn(
            record.turn_id, record.conversation_id, record.collection, record.question, record.request
        )
        try:
            with index_errors(), turn.current():
                events = await replay(
                    record,
                    collection=core.opened.get,
                    reranker=core.models.reranker,
                    models=models,
                    pairs=core.models.pairs,
                    settings=core.settings,
                    changes=changes,
                )
        except ReplayError as error:
            raise InvalidRequest(str(error), code="cannot_replay") from error
        events = restored(events, stored.rewrite, stored.evidence, stored.done)
        last = events[-1]
        status = last.status if isinstance(last, DoneEvent) else "failed"
        answer = last.answer if isinstance(last, DoneEvent) else ""
        return ReplayedTurn(record, grafted(tracing.end(turn, status, answer), record), events)

    @requires("server")
    async def keep_case(self, played: ReplayedTurn, name: str, answer: str) -> None:
        """Add a turn that was played again to `gold/NAME.jsonl` of the home, for `anaphora diagnose`.

        `answer` is the right one; empty: the one given now. Raises InvalidRequest.
        """
        if not is_name(name):
            raise InvalidRequest(f"A file of cases is called by {NAME_RULE}.", code="invalid_name")
        await self.account("case.keep", played.record.turn_id, collection=played.record.collection)
        try:
            await asyncio.to_thread(played.keep, self.core.settings.home / "gold" / f"{name}.jsonl", answer)
        except (OSError, ValueError) as error:
            raise Unavailable(f"The case could not be added to {name}.jsonl: {error}.", code="store_failed") from error

    @requires("ask")
    async def examples(self, collection: str, where: Where | None = None) -> list[Suggestion]:
        """The operator's questions (`server.questions`), then headings that are questions and are answered.

        Those of sections that answers cited most of late come first; what people typed is shown to nobody. With `where`
        only documents within it are looked at. Headings are tried once a day, and anew for each version of a
        collection. Raises NotFound, InvalidRequest.
        """
        where = _checked_filter(where) or {}
        name = checked_name(collection)
        ownership = await self.existing(name)
        curated = [Suggestion(question=question) for question in self.core.settings.server.questions.get(name, ())]
        if len(curated) >= EXAMPLES:
            return curated
        with index_errors():
            opened = await run_blocking(lambda: self.core.opened.get(name))
            key = name, opened.version, int(time.time() // KEPT_SECONDS), json.dumps(where, sort_keys=True)
            async with self.core.suggesting:
                if key not in self.core.suggested:
                    cited = await self._read(turns.cited_most, name, time.time() - CITED_SECONDS)
                    candidates = await run_blocking(partial(candidates_of, opened, where, cited))
                    suggestions = await self._answered(name, ownership.group, candidates, EXAMPLES, where)
                    same = {
                        old: was for old, was in self.core.suggested.items() if old[0] != name or old[:3] == key[:3]
                    }
                    self.core.suggested = same if len(same) < REMEMBERED else {}
                    self.core.suggested[key] = suggestions
                curated_texts = {example.question for example in curated}
                chosen = [example for example in self.core.suggested[key] if example.question not in curated_texts]
                return [*curated, *chosen][:EXAMPLES]

    @requires("ask")
    async def filters(self, collection: str) -> dict[str, list[MetadataValue]]:
        """Return the values of each field that `server.filters` names, as people count. Raises NotFound."""
        name = checked_name(collection)
        await self.existing(name)
        with index_errors():
            opened = await run_blocking(lambda: self.core.opened.get(name))
            fields = self.core.settings.server.filters.get(name, ())
            return {field: _choices(await run_blocking(partial(opened.metadata_values, field))) for field in fields}

    @requires("ask")
    async def follow_ups(self, turn_id: str) -> list[Suggestion]:
        """Headings that are questions, of sections that a turn found or next to the cited ones, and did not use.

        Raises NotFound.
        """
        turn = await self._turn(turn_id)
        if turn.status not in ("answered", "quoted") or turn.done is None or turn.evidence is None:
            return []
        ownership, cited = await self.existing(turn.collection), {c.passage_id for c in turn.done.citations}
        used = [passage for passage in turn.evidence.passages if passage.passage_id in cited]
        used_sections = {(passage.document_id, tuple(passage.heading)) for passage in used}
        places = [(p.document_id, p.title, tuple(p.heading)) for p in turn.evidence.passages]
        with index_errors():
            opened = await run_blocking(lambda: self.core.opened.get(turn.collection))
            for document_id in dict.fromkeys(passage.document_id for passage in used[:2]):
                document = await run_blocking(lambda: opened.document(document_id))  # noqa: B023
                near = [
                    n for n, section in enumerate(document.sections) if (document_id, section.heading) in used_sections
                ]
                for n in sorted(
                    {m for at in near for m in (at + 1, at - 1, at + 2) if 0 <= m < len(document.sections)}
                ):
                    places.append((document_id, document.title, document.sections[n].heading))
            seen = {turn.question.casefold()}
            candidates = [
                proposed
                for place in dict.fromkeys(places)
                if (place[0], place[2]) not in used_sections
                and (proposed := suggestion(*place))
                and proposed.question.casefold() not in seen
            ]
            return await self._answered(turn.collection, ownership.group, candidates, FOLLOW_UPS, turn.where)

    async def _answered(
        self, collection: str, group: str, candidates: Sequence[Suggestion], count: int, where: Where
    ) -> list[Suggestion]:
        """The first of the candidates that would be answered from their own section, within a filter."""
        search = await self.core.engine.search(group)
        until, suggestions = time.monotonic() + SECONDS, list[Suggestion]()
        for candidate in candidates[:TRIED]:
            if len(suggestions) == count or time.monotonic() > until:
                break
            if await asyncio.to_thread(is_answered, search, collection, candidate, where):
                suggestions.append(candidate)
        return suggestions


def _checked_filter(where: Where | None) -> Where | None:
    if where is None:
        return None
    values = sum(len(value) if isinstance(value, list) else 1 for value in where.values())
    if len(where) > MAX_FILTER_KEYS or values > MAX_FILTER_VALUES:
        raise InvalidRequest(f"A filter may have {MAX_FILTER_KEYS} keys and {MAX_FILTER_VALUES} values.", param="where")
    return where


def _choices(values: Sequence[MetadataValue]) -> list[MetadataValue]:
    """Values that a person can choose between: version 9 before 10."""

    def natural(value: MetadataValue) -> list[str | int]:
        return [int(part) if n % 2 else part for n, part in enumerate(re.split(r"(\d+)", str(value).casefold()))]

    choices = [value for value in values if len(text := str(value)) <= MAX_CHOICE_CHARS and text and is_showable(text)]
    return sorted(choices, key=natural)[:MAX_CHOICES]
