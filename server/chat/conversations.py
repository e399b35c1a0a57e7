"""The part of the service that keeps conversations and feedback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

from sqlalchemy import Connection

from server.access import policy
from server.chat.acting import Acting, acting
from server.chat.collections import checked_name
from server.chat.errors import InvalidRequest, NotFound
from server.chat.translated import store_errors
from server.store import conversations, export, feedback, turns
from server.store.records import (
    ConversationDetail,
    ConversationSummary,
    Feedback,
    FeedbackRecord,
    Rating,
    StoredTurn,
)

T = TypeVar("T")
S = TypeVar("S", bound=ConversationSummary)

MAX_COMMENT_CHARS = 4000
MAX_REASON_CHARS = 200
MAX_TITLE_CHARS = 400
MAX_QUERY_CHARS = 400
MAX_LISTED = 200
MAX_OFFSET = 2**31


def clean(text: str, limit: int, param: str) -> str:
    """`text` as it can be stored: no NUL, no half characters. Raises InvalidRequest above `limit` characters."""
    if len(text) > limit:
        raise InvalidRequest(
            f"The {param} has {len(text):,} characters; {limit:,} are allowed. Shorten it.",
            code="text_too_long",
            param=param,
        )
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


class ConversationMixin(Acting):
    """Conversations with their turns; feedback by turn."""

    async def demand_change(self, conversation_id: str) -> None:
        """Raise NotFound for a conversation that is not seen, Forbidden for one that belongs to somebody else."""
        key = clean(conversation_id, MAX_QUERY_CHARS, "conversation_id")
        with store_errors():
            owner = await self.core.database.read(lambda connection: conversations.owner(connection, key, self.seen))
        if not policy.may_change(self.principal, found_or_missing(owner, "conversation", conversation_id)):
            raise self.refusal("change_any", key)

    @acting("ask")
    async def create_conversation(self, collection: str = "", title: str = "", model: str = "") -> ConversationSummary:
        """A new, empty conversation, answered by one of `llm.choices`.

        Without a title its first question becomes one.
        """
        name = checked_name(collection or await self.default_collection())
        cleaned = clean(title, MAX_TITLE_CHARS, "title")
        whose, chosen = await self.existing(name), self._demand_choice(model)
        with store_errors():
            return await self.core.database.write(
                lambda connection: conversations.create(connection, name, whose, cleaned, chosen)
            )

    @acting("read")
    async def conversations(
        self, query: str | None = None, *, limit: int = 50, offset: int = 0
    ) -> list[ConversationSummary]:
        """Newest first; with `query` those whose title, questions or answers contain its words."""
        limit, offset = max(0, min(limit, MAX_LISTED)), max(0, min(offset, MAX_OFFSET))
        words = clean(query or "", MAX_QUERY_CHARS, "query").strip()
        with store_errors():
            if words and self.may("review"):
                self.note("conversation.search", detail={"query": words} if self.core.audit.content else {})
            if not words:
                return await self.core.database.read(
                    lambda connection: conversations.listing(connection, limit, offset, self.seen)
                )
            return await self.core.database.read(
                lambda connection: conversations.search(connection, words, limit, offset, self.seen)
            )

    @acting("read")
    async def conversation(self, conversation_id: str, *, whole: bool = False) -> ConversationDetail:
        """A conversation with the turns that are shown; with `whole` also the others. Raises NotFound."""
        return await self._conversation(
            conversation_id, lambda connection, key: conversations.detail(connection, key, self.seen, whole=whole)
        )

    async def _conversation(self, conversation_id: str, read: Callable[[Connection, str], S | None]) -> S:
        key = clean(conversation_id, MAX_QUERY_CHARS, "conversation_id")
        with store_errors():
            kept = await self.core.database.read(lambda connection: read(connection, key))
        found = found_or_missing(kept, "conversation", conversation_id)
        if not found.own:
            self.note("conversation.read", found.id, collection=found.collection)
        return found

    @acting("change")
    async def rename_conversation(self, conversation_id: str, title: str) -> ConversationSummary:
        """Give it a title. Raises NotFound, InvalidRequest for an empty or too long one."""
        key, cleaned = (
            clean(conversation_id, MAX_QUERY_CHARS, "conversation_id"),
            clean(title, MAX_TITLE_CHARS, "title"),
        )
        if not cleaned.strip():
            raise InvalidRequest("A title needs at least one character.", param="title")
        await self.demand_change(key)
        with store_errors():
            found = await self.core.database.write(
                lambda connection: conversations.rename(connection, key, cleaned, self.seen)
            )
        return found_or_missing(found, "conversation", conversation_id)

    @acting("change")
    async def choose_model(self, conversation_id: str, model: str) -> ConversationSummary:
        """Have one of `llm.choices` answer from now on, or with an empty name the usual model. Raises NotFound."""
        key, chosen = clean(conversation_id, MAX_QUERY_CHARS, "conversation_id"), self._demand_choice(model)
        await self.demand_change(key)
        with store_errors():
            found = await self.core.database.write(
                lambda connection: conversations.choose(connection, key, chosen, self.seen)
            )
        return found_or_missing(found, "conversation", conversation_id)

    def _demand_choice(self, model: str) -> str:
        """`model`, which is empty or one of `llm.choices`; raises NotFound for any other."""
        choices = self.core.settings.llm.choices
        if model and model not in choices:
            there = f"There are: {', '.join(choices)}." if choices else "The operator offers none."
            raise NotFound(
                f"There is no model {model[:80]!r} to choose. {there}", code="model_not_found", param="model"
            )
        return model

    @acting("change")
    async def show_version(self, conversation_id: str, turn_id: str) -> ConversationDetail:
        """Show another version of a turn, with what followed it. Raises NotFound."""
        key, turn = (clean(text, MAX_QUERY_CHARS, "turn_id") for text in (conversation_id, turn_id))
        await self.demand_change(key)
        with store_errors():
            done = await self.core.database.write(lambda connection: turns.show(connection, key, turn, self.seen))
        found_or_missing(done or None, "turn", turn_id)
        return await self.conversation(key)

    @acting("change")
    async def delete_conversation(self, conversation_id: str) -> None:
        """Delete it with its turns, traces and feedback. Raises NotFound."""
        key = clean(conversation_id, MAX_QUERY_CHARS, "conversation_id")
        await self.demand_change(key)
        with store_errors():
            await self.account("conversation.delete", key)
            found = await self.core.database.write(lambda connection: conversations.delete(connection, key, self.seen))
        found_or_missing(found or None, "conversation", conversation_id)

    @acting("read")
    async def export_conversation(self, conversation_id: str, style: Literal["json", "markdown"] = "json") -> str:
        """A conversation as a file's text. Raises NotFound."""
        found = await self.conversation(conversation_id, whole=style == "json")
        await self.account("conversation.export", found.id, collection=found.collection)
        return export.as_json(found) if style == "json" else export.as_markdown(found)

    @acting("read")
    async def stored_turn(self, turn_id: str) -> StoredTurn:
        """One turn as it is kept. Raises NotFound."""
        key = clean(turn_id, MAX_QUERY_CHARS, "turn_id")
        with store_errors():
            found = await self.core.database.read(lambda connection: turns.find(connection, key, self.seen))
        await self._note_read("turn.read", key)
        return found_or_missing(found, "turn", turn_id)

    @acting("rate")
    async def feedback(self, turn_id: str, rating: Rating, reason: str = "", comment: str = "") -> Feedback:
        """Keep a person's word on a turn; a second one replaces the first. Raises NotFound."""
        key = clean(turn_id, MAX_QUERY_CHARS, "turn_id")
        why, words = clean(reason, MAX_REASON_CHARS, "reason"), clean(comment, MAX_COMMENT_CHARS, "comment")
        with store_errors():
            given = await self.core.database.write(
                lambda connection: feedback.give(connection, key, rating, why, words, self.seen)
            )
        return found_or_missing(given, "turn", turn_id)

    @acting("rate")
    async def retract_feedback(self, turn_id: str) -> None:
        """Forget the feedback on a turn. Raises NotFound where there is none."""
        key = clean(turn_id, MAX_QUERY_CHARS, "turn_id")
        with store_errors():
            gone = await self.core.database.write(lambda connection: feedback.retract(connection, key, self.seen))
        found_or_missing(gone or None, "feedback on turn", turn_id)

    @acting("review")
    async def feedback_records(self) -> list[FeedbackRecord]:
        """All feedback with its questions and answers, oldest first."""
        await self.account("feedback.export")
        with store_errors():
            return await self.core.database.read(lambda connection: feedback.records(connection, self.seen))

    async def _note_read(self, did: str, turn_id: str) -> None:
        """Note that somebody else's turn was read; nobody below an agent sees one."""
        if self.may("review"):
            with store_errors():
                owner = await self.core.database.read(lambda connection: turns.owner(connection, turn_id, self.seen))
            if owner not in (None, self.principal.id):
                self.note(did, turn_id)


def found_or_missing(value: T | None, kind: str, key: str) -> T:
    if value is None:
        raise NotFound(f"There is no {kind} {key[:80]!r}.", code=f"{kind.split()[0]}_not_found")
    return value
