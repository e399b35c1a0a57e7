"""The part of the service that reviews: turns in the order of doubt, and what people make of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from rewriter.protocol import PassThroughRewriter
from server.chat.authorization import requires
from server.chat.conversations import MAX_COMMENT_CHARS, MAX_LISTED, MAX_OFFSET, ConversationMixin
from server.chat.error_mapping import (
    MAX_ID_CHARS,
    MAX_QUERY_CHARS,
    InvalidRequest,
    NotFound,
    Unavailable,
    clean,
    found_or_missing,
    index_errors,
    run_blocking,
)
from server.replay import ReplayChanges, ReplayError, replay
from server.store import reviewed, turns
from server.store.records import StoredTurn, Trace, TraceSummary, View
from server.store.reviewed import (
    Doubt,
    MarkedPassage,
    ReviewCandidate,
    ReviewedDialog,
    ReviewRecord,
    ReviewState,
    Verdict,
)
from server.traces import grafted, restored
from server.tracing import Tracing
from server.turn.events import DoneEvent, Event
from server.turn.models import TurnModels
from text.names import NAME_RULE, is_name

MAX_PASSAGE_CHARS = 8_000
HISTORY = 12
"""Messages before a turn that go along with it."""


class PassageMark(View):
    """A stretch of a document that answers a question, as it is asked for; offsets count characters of its text."""

    document_id: str
    start: int
    end: int


class NewReview(BaseModel):
    """A person's review of a turn. Fields that are left out stay as they were said before; null takes them back."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    verdict: Verdict = Field(
        description="corrected: what is given here is right. approved: so is all else, as it was searched, cited and "
        "answered. rejected: nothing is to be learnt from the turn."
    )
    rewrite: str | None = Field(default=None, max_length=4000, description="The question in full.")
    passages: tuple[PassageMark, ...] | None = Field(
        default=None, max_length=20, description="What answers it; empty where nothing of the collection does."
    )
    answer: str | None = Field(default=None, max_length=4000, description="The right answer.")


class ReviewPage(View):
    """A part of the list, and how many turns there are in all."""

    data: tuple[ReviewCandidate, ...]
    total: int


class ReviewMessage(View):
    """One message of the history."""

    role: Literal["user", "assistant"]
    text: str


class ReviewDetail(View):
    """A turn with what was said before it, what speaks against it, all that was ever made of it, and what counts."""

    turn: StoredTurn
    history: tuple[ReviewMessage, ...]
    doubts: tuple[Doubt, ...]
    rows: tuple[ReviewRecord, ...]
    current: ReviewRecord | None
    you: str


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
        searched: Mapping[str, Any] = rewrite.outputs if rewrite else {}
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


class TraceMixin(ConversationMixin):
    """Traces by turn."""

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
        stored = await self.stored_turn(record.turn_id)
        ownership = await self.existing(record.collection)
        core = self.core

        if model:
            changes = replace(changes, another_model=True)
        chosen = core.models if model in ("", NO_MODEL) else core.chosen[self._demand_choice(model)]

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


class ReviewMixin(TraceMixin):
    """Reviews by turn."""

    @requires("review")
    async def reviews(
        self,
        *,
        state: ReviewState = "open",
        doubt: Doubt | None = None,
        collection: str = "",
        query: str = "",
        limit: int = 50,
        offset: int = 0,
    ) -> ReviewPage:
        """Turns that wait for a review, most doubtful first, or those that had one; `query` occurs in the question."""
        words, name = clean(query, MAX_QUERY_CHARS, "query").strip(), clean(collection, MAX_ID_CHARS, "collection")
        candidates, total = await self._read(
            reviewed.candidates,
            self.principal,
            state=state,
            doubt=doubt or "",
            collection=name,
            words=words,
            limit=max(0, min(limit, MAX_LISTED)),
            offset=max(0, min(offset, MAX_OFFSET)),
        )
        return ReviewPage(data=tuple(candidates), total=total)

    @requires("review")
    async def review(self, turn_id: str) -> ReviewDetail:
        """A turn with all that a reviewer needs. Raises NotFound."""
        return await self._detail(await self._reviewable(turn_id))

    @requires("review")
    async def give_review(self, turn_id: str, review: NewReview) -> ReviewDetail:
        """Say something of a turn. Raises NotFound, InvalidRequest for a passage that is not there."""
        turn = await self._reviewable(turn_id)
        fields: dict[str, object] = {}
        for name in review.model_fields_set & {"rewrite", "answer"}:
            value: str | None = getattr(review, name)
            fields[name] = (clean(value, MAX_COMMENT_CHARS, name).strip() if value else "") or None
        if "passages" in review.model_fields_set:
            fields["passages"] = (
                None if review.passages is None else await self._quoted(turn.collection, review.passages)
            )
        group, detail = (await self.reached(turn.collection)).group, {"verdict": review.verdict}
        await self.account("review.give", turn.id, collection=turn.collection, group=group, detail=detail)
        await self._write(reviewed.add, turn, review.verdict, fields, self.principal.id)
        return await self._detail(turn)

    @requires("review")
    async def undo_review(self, turn_id: str) -> ReviewDetail:
        """Take back what was said last of a turn. Raises NotFound where nothing was."""
        turn = await self._reviewable(turn_id)
        group = (await self.reached(turn.collection)).group
        await self.account("review.undo", turn.id, collection=turn.collection, group=group)
        done = await self._write(reviewed.undo, turn.id, self.principal.id)
        if not done:
            raise NotFound(f"Nothing was said of turn {turn.id!r}.", code="review_not_found")
        return await self._detail(turn)

    @requires("review")
    async def reviewed_dialogs(self, collection: str = "") -> list[ReviewedDialog]:
        """Reviewed conversations, as evaluation sets and training rows."""
        name = clean(collection, MAX_ID_CHARS, "collection")
        await self.account("review.export", collection=name)
        return await self._read(reviewed.dialogs, self.principal, name)

    async def _reviewable(self, turn_id: str) -> StoredTurn:
        turn = await self.stored_turn(turn_id)
        if turn.conversation_id is None or turn.status == "pending" or not turn.question:
            raise InvalidRequest(
                "Only turns of conversations can be reviewed, once they are answered.", code="cannot_review"
            )
        return turn

    async def _detail(self, turn: StoredTurn) -> ReviewDetail:
        def read(connection: Connection) -> ReviewDetail:
            before = turns.history(
                connection, turn.conversation_id or "", self.principal, before=turn.id, limit=HISTORY
            )
            return ReviewDetail(
                turn=turn,
                history=before.messages,
                doubts=reviewed.doubts(connection, turn.id),
                rows=tuple(reviewed.rows_of(connection, turn.id)),
                current=reviewed.counting(connection, turn.id),
                you=self.principal.id,
            )

        return await self._read(read)

    async def _quoted(self, collection: str, marks: tuple[PassageMark, ...]) -> tuple[MarkedPassage, ...]:
        if not marks:
            return ()
        await self.existing(collection)

        def quoted() -> tuple[MarkedPassage, ...]:
            opened, marked = self.core.opened.get(collection), dict[tuple[str, int, int], MarkedPassage]()
            names = {document.id for document in opened.documents()}
            for mark in marks:
                text = opened.document(mark.document_id).text if mark.document_id in names else ""
                quote = text[mark.start : mark.end] if 0 <= mark.start < mark.end <= len(text) else ""
                if not quote.strip() or len(quote) > MAX_PASSAGE_CHARS:
                    raise InvalidRequest(
                        f"The collection has no such passage of {MAX_PASSAGE_CHARS:,} characters at most.",
                        code="passage_not_found",
                        param="passages",
                    )
                marked[mark.document_id, mark.start, mark.end] = MarkedPassage(**mark.model_dump(), quote=quote)
            return tuple(marked.values())

        with index_errors():
            return await run_blocking(quoted)


NO_MODEL = "none"
