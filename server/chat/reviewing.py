"""The part of the service that reviews: turns in the order of doubt, and what people make of them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from server.chat.acting import acting
from server.chat.conversations import MAX_COMMENT_CHARS, MAX_LISTED, MAX_OFFSET
from server.chat.errors import InvalidRequest, NotFound
from server.chat.traces import TraceMixin
from server.chat.translated import MAX_ID_CHARS, MAX_QUERY_CHARS, clean, in_thread, index_errors
from server.store import reviewed, turns
from server.store.records import StoredTurn, View
from server.store.reviewed import (
    Doubt,
    MarkedPassage,
    ReviewCandidate,
    ReviewedDialog,
    ReviewRecord,
    ReviewState,
    Verdict,
)

MAX_PASSAGE_CHARS = 8_000
HISTORY = 12
"""Messages before a turn that go along with it."""


class PassageMark(View):
    """A stretch of a document that answers a question, as it is asked for; offsets count characters of its text."""

    document_id: str
    start: int
    end: int


class NewReview(BaseModel):
    """What a person says of a turn. Fields that are left out stay as they were said before; null takes them back."""

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


class ReviewMixin(TraceMixin):
    """Reviews by turn."""

    @acting("review")
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
        """Turns that wait for a review, most doubtful first, or those that had one; `query` stands in the question."""
        words, name = clean(query, MAX_QUERY_CHARS, "query").strip(), clean(collection, MAX_ID_CHARS, "collection")
        found, total = await self._read(
            reviewed.candidates,
            self.principal,
            state=state,
            doubt=doubt or "",
            collection=name,
            words=words,
            limit=max(0, min(limit, MAX_LISTED)),
            offset=max(0, min(offset, MAX_OFFSET)),
        )
        return ReviewPage(data=tuple(found), total=total)

    @acting("review")
    async def review(self, turn_id: str) -> ReviewDetail:
        """A turn with all that a reviewer needs. Raises NotFound."""
        return await self._detail(await self._reviewable(turn_id))

    @acting("review")
    async def give_review(self, turn_id: str, review: NewReview) -> ReviewDetail:
        """Say something of a turn. Raises NotFound, InvalidRequest for a passage that is not there."""
        turn = await self._reviewable(turn_id)
        said: dict[str, object] = {}
        for name in review.model_fields_set & {"rewrite", "answer"}:
            value: str | None = getattr(review, name)
            said[name] = (clean(value, MAX_COMMENT_CHARS, name).strip() if value else "") or None
        if "passages" in review.model_fields_set:
            said["passages"] = None if review.passages is None else await self._quoted(turn.collection, review.passages)
        group, detail = (await self.reached(turn.collection)).group, {"verdict": review.verdict}
        await self.account("review.give", turn.id, collection=turn.collection, group=group, detail=detail)
        await self._write(reviewed.add, turn, review.verdict, said, self.principal.id)
        return await self._detail(turn)

    @acting("review")
    async def undo_review(self, turn_id: str) -> ReviewDetail:
        """Take back what was said last of a turn. Raises NotFound where nothing was."""
        turn = await self._reviewable(turn_id)
        group = (await self.reached(turn.collection)).group
        await self.account("review.undo", turn.id, collection=turn.collection, group=group)
        done = await self._write(reviewed.undo, turn.id, self.principal.id)
        if not done:
            raise NotFound(f"Nothing was said of turn {turn.id!r}.", code="review_not_found")
        return await self._detail(turn)

    @acting("review")
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
            opened, made = self.core.opened.get(collection), dict[tuple[str, int, int], MarkedPassage]()
            known = {one.id for one in opened.documents()}
            for mark in marks:
                text = opened.document(mark.document_id).text if mark.document_id in known else ""
                quote = text[mark.start : mark.end] if 0 <= mark.start < mark.end <= len(text) else ""
                if not quote.strip() or len(quote) > MAX_PASSAGE_CHARS:
                    raise InvalidRequest(
                        f"The collection has no such passage of {MAX_PASSAGE_CHARS:,} characters at most.",
                        code="passage_not_found",
                        param="passages",
                    )
                made[mark.document_id, mark.start, mark.end] = MarkedPassage(**mark.model_dump(), quote=quote)
            return tuple(made.values())

        with index_errors():
            return await in_thread(quoted)
