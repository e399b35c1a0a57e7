"""The part of the service that keeps conversations and feedback."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, TypeVar

from sqlalchemy import Connection

from server.access import Principal, policy
from server.chat.authorization import ServiceBase, requires
from server.chat.collections import checked_name
from server.chat.error_mapping import MAX_QUERY_CHARS, Forbidden, InvalidRequest, NotFound, clean, found_or_missing
from server.chat.types import NewShare
from server.store import conversations, export, feedback, shares, turns
from server.store.records import (
    ConversationDetail,
    ConversationSummary,
    Feedback,
    FeedbackRecord,
    Rating,
    Share,
    StoredTurn,
)

S = TypeVar("S", bound=ConversationSummary)

MAX_COMMENT_CHARS = 4000
MAX_REASON_CHARS = 200
MAX_TITLE_CHARS = 400
MAX_LISTED = 200
MAX_OFFSET = 2**31


class ConversationMixin(ServiceBase):
    """Conversations with their turns; feedback by turn."""

    async def demand_change(self, conversation_id: str) -> str:
        """The id of a conversation that may be changed. Raises NotFound for one that is not seen, Forbidden for one of
        somebody else."""
        key = clean(conversation_id, MAX_QUERY_CHARS, "conversation_id")
        owner = await self._read(conversations.owner, key, self.principal)
        if not policy.may_change(self.principal, found_or_missing(owner, "conversation", conversation_id)):
            raise self.refusal("change_any", key)
        return key

    @requires("ask")
    async def create_conversation(self, collection: str = "", title: str = "", model: str = "") -> ConversationSummary:
        """A new, empty conversation, answered by one of `llm.choices`.

        Without a title its first question becomes one.
        """
        name, cleaned = (
            checked_name(collection or await self.default_collection()),
            clean(title, MAX_TITLE_CHARS, "title"),
        )
        ownership, chosen = await self.existing(name), self._demand_choice(model)
        return await self._write(conversations.create, name, ownership, cleaned, chosen)

    @requires("read")
    async def conversations(
        self, query: str | None = None, *, limit: int = 50, offset: int = 0
    ) -> list[ConversationSummary]:
        """Newest first; with `query` those whose title, questions or answers contain its words."""
        limit, offset = max(0, min(limit, MAX_LISTED)), max(0, min(offset, MAX_OFFSET))
        words = clean(query or "", MAX_QUERY_CHARS, "query").strip()
        if words and self.may("review"):
            self.note("conversation.search", detail={"query": words} if self.core.settings.audit.content else {})
        if not words:
            return await self._read(conversations.listing, limit, offset, self.principal)
        return await self._read(conversations.search, words, limit, offset, self.principal)

    @requires("read")
    async def conversation(self, conversation_id: str, *, whole: bool = False) -> ConversationDetail:
        """A conversation with the turns that are shown; with `whole` also the others. Raises NotFound."""
        return await self._conversation(conversation_id, partial(conversations.detail, whole=whole))

    async def _conversation(self, conversation_id: str, read: Callable[[Connection, str, Principal], S | None]) -> S:
        key = clean(conversation_id, MAX_QUERY_CHARS, "conversation_id")
        value = found_or_missing(await self._read(read, key, self.principal), "conversation", key)
        if not value.own:
            self.note("conversation.read", value.id, collection=value.collection)
        return value

    @requires("change")
    async def rename_conversation(self, conversation_id: str, title: str) -> ConversationSummary:
        """Give it a title. Raises NotFound, InvalidRequest for an empty or too long one."""
        cleaned = clean(title, MAX_TITLE_CHARS, "title")
        if not cleaned.strip():
            raise InvalidRequest("A title needs at least one character.", param="title")
        key = await self.demand_change(conversation_id)
        return found_or_missing(
            await self._write(conversations.rename, key, cleaned, self.principal), "conversation", key
        )

    @requires("change")
    async def choose_model(self, conversation_id: str, model: str) -> ConversationSummary:
        """Have one of `llm.choices` answer from now on, or with an empty name the usual model. Raises NotFound."""
        chosen, key = self._demand_choice(model), await self.demand_change(conversation_id)
        return found_or_missing(
            await self._write(conversations.choose, key, chosen, self.principal), "conversation", key
        )

    def _demand_choice(self, model: str) -> str:
        """`model`, which is empty or one of `llm.choices`; raises NotFound for any other."""
        choices = self.core.settings.llm.choices
        if model and model not in choices:
            there = f"There are: {', '.join(choices)}." if choices else "The operator offers none."
            raise NotFound(
                f"There is no model {model[:80]!r} to choose. {there}", code="model_not_found", param="model"
            )
        return model

    @requires("change")
    async def show_version(self, conversation_id: str, turn_id: str) -> ConversationDetail:
        """Show another version of a turn, with what followed it. Raises NotFound."""
        turn, key = clean(turn_id, MAX_QUERY_CHARS, "turn_id"), await self.demand_change(conversation_id)
        found_or_missing(await self._write(turns.show, key, turn, self.principal), "turn", turn_id)
        return await self.conversation(key)

    @requires("change")
    async def delete_conversation(self, conversation_id: str) -> None:
        """Delete it with its turns, traces and feedback. Raises NotFound."""
        key = await self.demand_change(conversation_id)
        await self.account("conversation.delete", key)
        found_or_missing(await self._write(conversations.delete, key, self.principal), "conversation", key)

    @requires("read")
    async def export_conversation(self, conversation_id: str, style: Literal["json", "markdown"] = "json") -> str:
        """A conversation as a file's text. Raises NotFound."""
        detail = await self.conversation(conversation_id, whole=style == "json")
        await self.account("conversation.export", detail.id, collection=detail.collection)
        return export.as_json(detail) if style == "json" else export.as_markdown(detail)

    @requires("read")
    async def stored_turn(self, turn_id: str) -> StoredTurn:
        """One turn as it is kept. Raises NotFound."""
        await self._note_read("turn.read", turn_id)
        return await self._turn(turn_id)

    @requires("rate")
    async def feedback(self, turn_id: str, rating: Rating, reason: str = "", comment: str = "") -> Feedback:
        """Keep a person's word on a turn; a second one replaces the first. Raises NotFound."""
        key = clean(turn_id, MAX_QUERY_CHARS, "turn_id")
        why, words = clean(reason, MAX_REASON_CHARS, "reason"), clean(comment, MAX_COMMENT_CHARS, "comment")
        return found_or_missing(
            await self._write(feedback.give, key, rating, why, words, self.principal), "turn", turn_id
        )

    @requires("rate")
    async def retract_feedback(self, turn_id: str) -> None:
        """Forget the feedback on a turn. Raises NotFound where there is none."""
        key = clean(turn_id, MAX_QUERY_CHARS, "turn_id")
        found_or_missing(await self._write(feedback.retract, key, self.principal), "feedback on turn", turn_id)

    @requires("review")
    async def feedback_records(self) -> list[FeedbackRecord]:
        """All feedback with its questions and answers, oldest first."""
        await self.account("feedback.export")
        return await self._read(feedback.records, self.principal)

    async def _note_read(self, did: str, turn_id: str) -> None:
        """Note that somebody else's turn was read; nobody below an agent sees one."""
        if self.may("review"):
            owner = await self._read(turns.owner, turn_id, self.principal)
            if owner not in (None, self.principal.id):
                self.note(did, turn_id)


DAY = 86_400.0


class SharingMixin(ConversationMixin):
    """Links to conversations: given, listed, taken back, opened."""

    @requires("change")
    async def share_conversation(self, conversation_id: str, days: int = 0) -> NewShare:
        """A link by which anybody may read the conversation for so many days, at most and by default
        `server.share_days`. Raises NotFound, Forbidden, InvalidRequest."""
        most = self.core.settings.server.share_days
        if not most:
            raise Forbidden("Sharing is off; an operator may allow it with server.share_days.")
        if days < 0 or days > most:
            raise InvalidRequest(f"A link may last {most} days at most.", param="days")
        key = await self.demand_change(conversation_id)
        await self.account("conversation.share", key)
        share, secret = await self._write(shares.give, key, self.principal, (days or most) * DAY)
        return NewShare(**share.model_dump(), path=f"/shared/{secret}")

    @requires("change")
    async def shares(self, conversation_id: str) -> list[Share]:
        """The links to a conversation that have not expired. Raises NotFound."""
        return await self._read(shares.listing, await self.demand_change(conversation_id))

    @requires("change")
    async def take_back_share(self, conversation_id: str, share_id: str) -> None:
        """Make a link useless. Raises NotFound."""
        share, key = clean(share_id, MAX_QUERY_CHARS, "share_id"), await self.demand_change(conversation_id)
        await self.account("conversation.unshare", key)
        found_or_missing(await self._write(shares.take_back, key, share), "share", share_id)

    @requires("ready")
    async def shared(self, secret: str) -> tuple[str, str]:
        """The title of a link's conversation, and all of it as Markdown, as whoever gave the link may read it now.
        Raises NotFound for any other reason."""
        shared_as = None
        if self.core.settings.server.share_days:
            shared_as = await self._read(shares.find, secret)
        key, giver = found_or_missing(shared_as, "shared conversation", "of this link")
        detail = await self._read(conversations.detail, key, giver)
        read = found_or_missing(detail, "shared conversation", "of this link")
        self.note("conversation.opened", key, collection=read.collection)
        # What the giver thought of answers is not for others.
        turns = tuple(turn.model_copy(update={"feedback": None}) for turn in read.messages)
        return read.title, export.as_markdown(read.model_copy(update={"messages": turns}))
