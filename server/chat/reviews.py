"""`ReviewService`: turns in the order of doubt, the reviews of people, and statistics over turns."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from rewriter.protocol import Message
from server.chat.base import (
    MAX_ID_CHARS,
    MAX_LISTED,
    MAX_QUERY_CHARS,
    InvalidRequest,
    NotFound,
    ServiceBase,
    checked_name,
    clean,
    requires,
    run_blocking,
)
from server.chat.conversations import MAX_COMMENT_CHARS, MAX_OFFSET, TurnService
from server.store import reviewed, turns
from server.store.records import DayCounts, StoredTurn, View
from server.store.reviewed import (
    Doubt,
    MarkedPassage,
    PassageMark,
    ReviewCandidate,
    ReviewRecord,
    ReviewState,
    Verdict,
)


class StageTimes(View):
    """Seconds that a stage took, median and 95th percentile, over so many turns."""

    stage: str
    p50: float
    p95: float
    turns: int


class Statistics(View):
    """How the server fares. Days without turns are left out."""

    since: float
    days: list[DayCounts]
    stages: list[StageTimes] = Field(description="Over the newest traced turns; `turn` is a whole one.")


MAX_PASSAGE_CHARS = 8_000
DAY = 86_400.0
HISTORY = 12
"""Messages before a turn that go along with it."""


class NewReview(BaseModel):
    """A person's review of a turn. Fields that are left out stay as they were said before; null takes them back."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    verdict: Verdict | Literal["undone"] = Field(
        description="corrected: what is given here is right. approved: so is all else, as it was searched, cited and "
        "answered. rejected: nothing is to be learnt from the turn. undone: what was said last is taken back."
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


class ReviewDetail(View):
    """A turn with what was said before it, what speaks against it, all that was ever made of it, and what counts."""

    turn: StoredTurn
    history: tuple[Message, ...]
    doubts: tuple[Doubt, ...]
    rows: tuple[ReviewRecord, ...]
    current: ReviewRecord | None
    you: str


class ReviewService(ServiceBase):
    """Reviews by turn."""

    @requires("review")
    async def listing(
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
    async def get(self, turn_id: str) -> ReviewDetail:
        """A turn with all that a reviewer needs. Raises NotFound."""
        return await self._detail(await self._reviewable(turn_id))

    @requires("review")
    async def give(self, turn_id: str, review: NewReview) -> ReviewDetail:
        """Say something of a turn, or take back what was said last. Raises NotFound, where nothing was said too, and
        InvalidRequest for a passage that is not there."""
        turn = await self._reviewable(turn_id)
        group = (await self.reached(turn.collection)).group
        if review.verdict == "undone":
            await self.account("review.undo", turn.id, collection=turn.collection, group=group)
            if not await self._write(reviewed.undo, turn.id, self.principal.id):
                raise NotFound(f"Nothing was said of turn {turn.id!r}.", code="review_not_found")
            return await self._detail(turn)
        fields: dict[str, object] = {}
        for name in review.model_fields_set & {"rewrite", "answer"}:
            value: str | None = getattr(review, name)
            fields[name] = (clean(value, MAX_COMMENT_CHARS, name).strip() if value else "") or None
        if "passages" in review.model_fields_set:
            fields["passages"] = (
                None if review.passages is None else await self._quoted(turn.collection, review.passages)
            )
        detail = {"verdict": review.verdict}
        await self.account("review.give", turn.id, collection=turn.collection, group=group, detail=detail)
        await self._write(reviewed.add, turn, review.verdict, fields, self.principal.id)
        return await self._detail(turn)

    async def _reviewable(self, turn_id: str) -> StoredTurn:
        turn = await TurnService(self.core, self.principal).get(turn_id)
        visited = await self._read(turns.is_of_visitor, turn.id, self.principal)
        if not (turn.conversation_id or visited) or turn.status == "pending" or not turn.question:
            raise InvalidRequest(
                "Only turns of conversations and of visitors can be reviewed, once they are answered.",
                code="cannot_review",
            )
        return turn

    async def _detail(self, turn: StoredTurn) -> ReviewDetail:
        def read(connection: Connection) -> ReviewDetail:
            place = turn.conversation_id
            before = turns.history(connection, place, self.principal, before=turn.id, limit=HISTORY)
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

        return await run_blocking(quoted)

    @requires("review")
    async def statistics(self, *, days: int = 30, collection: str = "") -> Statistics:
        """Return counts of the last `days`, including today."""
        name = checked_name(collection) if collection else ""
        since = (time.time() // DAY - (days - 1)) * DAY
        arguments = (self.principal, name, since)
        counts = await self._read(reviewed.days, *arguments)
        seconds = await self._read(reviewed.stages, *arguments)
        stages = [_times(stage, times) for stage, times in seconds.items()]
        return Statistics(since=since, days=counts, stages=stages)


def _times(stage: str, seconds: Sequence[float]) -> StageTimes:
    p50, p95 = np.percentile(seconds, (50, 95))
    return StageTimes(stage=stage, p50=float(p50), p95=float(p95), turns=len(seconds))
