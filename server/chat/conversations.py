"""`ConversationService` keeps, finds, shares and exports conversations; `TurnService` asks, searches and replays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection

from rewriter.protocol import Message, PassThroughRewriter
from server.access import Ownership, Principal, may_change
from server.chat.base import (
    MAX_LISTED,
    MAX_QUERY_CHARS,
    Forbidden,
    InvalidRequest,
    NotFound,
    ServiceBase,
    Unavailable,
    checked_filter,
    checked_name,
    clean,
    found_or_missing,
    requires,
    translated,
)
from server.chat.limits import QueueSlot
from server.chat.running_turn import MAX_HISTORY_MESSAGES, RunningTurn, TurnRequest
from server.replay import ReplayChanges, ReplayError, replay
from server.store import conversations, credentials, turns
from server.store.records import (
    ConversationDetail,
    ConversationSummary,
    Feedback,
    Rating,
    Share,
    StoredTurn,
    Trace,
    TraceSummary,
    View,
)
from server.tracing import Tracing, grafted
from server.turn.events import DoneEvent, Event, Evidence, RewriteEvent, TurnFailed
from server.turn.evidence import numbered
from server.turn.models import TurnModels
from server.turn.search import NO_PAGE
from server.turn.system_messages import history_for_model


class NewShare(Share):
    """A link that was made just now: `path` on this server is the link itself, which cannot be had again."""

    path: str


S = TypeVar("S", bound=ConversationSummary)
MAX_TITLE_CHARS = 400
MAX_OFFSET = 2**31
DAY = 86_400.0


class ConversationService(ServiceBase):
    """Conversations of whoever acts, with their turns, and links by which others read them."""

    async def demand_change(self, conversation_id: str) -> str:
        """The id of a conversation that may be changed. Raises NotFound for one that is not seen, Forbidden for one of
        somebody else."""
        key = clean(conversation_id, MAX_QUERY_CHARS, "conversation_id")
        owner = await self._read(conversations.owner, key, self.principal)
        if not may_change(self.principal, found_or_missing(owner, "conversation", conversation_id)):
            raise self.refusal("change_any", key)
        return key

    @requires("ask")
    async def create(self, collection: str = "", title: str = "", model: str = "") -> ConversationSummary:
        """A new, empty conversation, answered by one of `llm.choices`.

        Without a title its first question becomes one.
        """
        name, cleaned = (
            checked_name(collection or await self.default_collection()),
            clean(title, MAX_TITLE_CHARS, "title"),
        )
        ownership, chosen = await self.existing(name), self.demand_choice(model)
        return await self._write(conversations.create, name, ownership, cleaned, chosen)

    @requires("read")
    async def listing(self, query: str | None = None, *, limit: int = 50, offset: int = 0) -> list[ConversationSummary]:
        """Newest first; with `query` those whose title, questions or answers contain its words."""
        limit, offset = max(0, min(limit, MAX_LISTED)), max(0, min(offset, MAX_OFFSET))
        words = clean(query or "", MAX_QUERY_CHARS, "query").strip()
        if words and self.may("review"):
            self.note("conversation.search", detail={"query": words} if self.core.settings.keeps_questions else {})
        return await self._read(conversations.search, words, limit, offset, self.principal)

    @requires("read")
    async def get(self, conversation_id: str) -> ConversationDetail:
        """A conversation with the turns that are shown and its links. Raises NotFound."""
        detail = await self._one(conversation_id, conversations.detail)
        if not detail.own:
            return detail
        return detail.model_copy(update={"shares": await self._read(credentials.list_shares, detail.id)})

    @requires("read")
    async def summary(self, conversation_id: str) -> ConversationSummary:
        """Return a conversation without its turns, which hold all passages that were ever shown. Raises NotFound."""
        return await self._one(conversation_id, conversations.summary)

    async def _one(self, conversation_id: str, read: Callable[[Connection, str, Principal], S | None]) -> S:
        key = clean(conversation_id, MAX_QUERY_CHARS, "conversation_id")
        value = found_or_missing(await self._read(read, key, self.principal), "conversation", key)
        if not value.own:
            self.note("conversation.read", value.id, collection=value.collection)
        return value

    @requires("change")
    async def rename(self, conversation_id: str, title: str) -> ConversationSummary:
        """Give it a title. Raises NotFound, InvalidRequest for an empty or too long one."""
        cleaned = clean(title, MAX_TITLE_CHARS, "title")
        if not cleaned.strip():
            raise InvalidRequest("A title needs at least one character.", param="title")
        key = await self.demand_change(conversation_id)
        return await self._change(key, title=conversations.clean_title(cleaned))

    @requires("change")
    async def choose_model(self, conversation_id: str, model: str) -> ConversationSummary:
        """Have one of `llm.choices` answer from now on, or with an empty name the usual model. Raises NotFound."""
        chosen, key = self.demand_choice(model), await self.demand_change(conversation_id)
        return await self._change(key, model=chosen)

    async def _change(self, key: str, **values: str) -> ConversationSummary:
        changed = await self._write(conversations.change, key, self.principal, **values)
        return found_or_missing(changed, "conversation", key)

    @requires("change")
    async def show_version(self, conversation_id: str, turn_id: str) -> ConversationDetail:
        """Show another version of a turn, with what followed it. Raises NotFound."""
        turn, key = clean(turn_id, MAX_QUERY_CHARS, "turn_id"), await self.demand_change(conversation_id)
        found_or_missing(await self._write(turns.show, key, turn, self.principal), "turn", turn_id)
        return await self.get(key)

    @requires("change")
    async def delete(self, conversation_id: str) -> None:
        """Delete it with its turns, traces and feedback. Raises NotFound."""
        key = await self.demand_change(conversation_id)
        await self.account("conversation.delete", key)
        found_or_missing(await self._write(conversations.delete, key, self.principal), "conversation", key)

    @requires("read")
    async def export(self, conversation_id: str) -> str:
        """A conversation in Markdown. Raises NotFound."""
        detail = await self.get(conversation_id)
        await self.account("conversation.export", detail.id, collection=detail.collection)
        return conversations.as_markdown(detail)

    @requires("change")
    async def share(self, conversation_id: str, days: int = 0) -> NewShare:
        """A link by which anybody may read the conversation for so many days, at most and by default
        `server.share_days`. Raises NotFound, Forbidden, InvalidRequest."""
        most = self.core.settings.server.share_days
        if not most:
            raise Forbidden("Sharing is off; an operator may allow it with server.share_days.")
        if days < 0 or days > most:
            raise InvalidRequest(f"A link may last {most} days at most.", param="days")
        key = await self.demand_change(conversation_id)
        await self.account("conversation.share", key)
        share, secret = await self._write(credentials.share, key, self.principal, (days or most) * DAY)
        return NewShare(**share.model_dump(), path=f"/shared/{secret}")

    @requires("change")
    async def revoke_share(self, conversation_id: str, share_id: str) -> None:
        """Make a link useless. Raises NotFound."""
        share, key = clean(share_id, MAX_QUERY_CHARS, "share_id"), await self.demand_change(conversation_id)
        await self.account("conversation.unshare", key)
        found_or_missing(await self._write(credentials.unshare, key, share), "share", share_id)

    @requires("ready")
    async def open_shared(self, secret: str) -> ConversationDetail:
        """The conversation of a link, as whoever gave the link may read it now. Raises NotFound for any other
        reason."""
        shared_as = None
        if self.core.settings.server.share_days:
            shared_as = await self._read(credentials.find_share, secret)
        key, giver = found_or_missing(shared_as, "shared conversation", "of this link")
        detail = await self._read(conversations.detail, key, giver)
        read = found_or_missing(detail, "shared conversation", "of this link")
        self.note("conversation.opened", key, collection=read.collection)
        # What the giver thought of answers is not for others.
        turns = tuple(turn.model_copy(update={"feedback": None, "opened": ()}) for turn in read.messages)
        return read.model_copy(update={"messages": turns})


class SearchResult(View):
    """Evidence that a turn would receive, and more of it."""

    rewrite: RewriteEvent
    passages: list[Evidence]
    reranked: bool
    seconds: float


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
        inputs, searched = (rewrite.inputs, rewrite.output or {}) if rewrite else ({}, {})
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
    async def search(self, request: TurnRequest, *, k: int = 20) -> SearchResult:
        """Search as a turn would: rewrite, legs, fusion, rerank; best first. Takes a turn's place meanwhile."""
        request, ownership = await self._checked(request)
        ticket = self._place()
        try:
            await ticket.wait()
            search = await self.core.engine.search(ownership.group)
            with translated():
                result = await search.search(
                    request.question,
                    collection=request.collection,
                    conversation=history_for_model(request.history or ()),
                    k=max(1, min(k, MAX_RESULTS)),
                    where=request.where,
                    page=request.page or NO_PAGE,
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
                "where": checked_filter(request.where),
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
            with translated(), turn.current():
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
        last = events[-1]
        status = last.status if isinstance(last, DoneEvent) else "failed"
        answer = last.answer if isinstance(last, DoneEvent) else ""
        return ReplayedTurn(record, grafted(tracing.end(turn, status, answer), record), events)
