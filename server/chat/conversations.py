"""`ConversationService`: keep, find, share and export conversations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, TypeVar

from sqlalchemy import Connection

from server.access import Principal, may_change
from server.chat.base import (
    MAX_LISTED,
    MAX_QUERY_CHARS,
    Forbidden,
    InvalidRequest,
    ServiceBase,
    checked_name,
    clean,
    found_or_missing,
    requires,
)
from server.store import conversations, credentials, turns
from server.store.records import ConversationDetail, ConversationSummary, Share


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
    async def get(self, conversation_id: str, *, whole: bool = False) -> ConversationDetail:
        """A conversation with the turns that are shown and its links; with `whole` all turns. Raises NotFound."""
        detail = await self._one(conversation_id, partial(conversations.detail, whole=whole))
        if whole or not detail.own:
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
        return found_or_missing(
            await self._write(conversations.rename, key, cleaned, self.principal), "conversation", key
        )

    @requires("change")
    async def choose_model(self, conversation_id: str, model: str) -> ConversationSummary:
        """Have one of `llm.choices` answer from now on, or with an empty name the usual model. Raises NotFound."""
        chosen, key = self.demand_choice(model), await self.demand_change(conversation_id)
        return found_or_missing(
            await self._write(conversations.choose, key, chosen, self.principal), "conversation", key
        )

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
    async def export(self, conversation_id: str, style: Literal["json", "markdown"] = "json") -> str:
        """A conversation as a file's text. Raises NotFound."""
        detail = await self.get(conversation_id, whole=style == "json")
        await self.account("conversation.export", detail.id, collection=detail.collection)
        return conversations.as_json(detail) if style == "json" else conversations.as_markdown(detail)

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
