"""The part of the service that lets a conversation be read by a link, where the operator allows it."""

from __future__ import annotations

from server.chat.acting import acting
from server.chat.conversations import ConversationMixin
from server.chat.errors import Forbidden, InvalidRequest
from server.chat.translated import MAX_QUERY_CHARS, clean, found_or_missing
from server.chat.types import NewShare
from server.store import conversations, export, shares
from server.store.records import Share

DAY = 86_400.0


class SharingMixin(ConversationMixin):
    """Links to conversations: given, listed, taken back, opened."""

    @acting("change")
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
        made, secret = await self._write(shares.give, key, self.principal, (days or most) * DAY)
        return NewShare(**made.model_dump(), path=f"/shared/{secret}")

    @acting("change")
    async def shares(self, conversation_id: str) -> list[Share]:
        """The links to a conversation that have not expired. Raises NotFound."""
        return await self._read(shares.listing, await self.demand_change(conversation_id))

    @acting("change")
    async def take_back_share(self, conversation_id: str, share_id: str) -> None:
        """Make a link useless. Raises NotFound."""
        share, key = clean(share_id, MAX_QUERY_CHARS, "share_id"), await self.demand_change(conversation_id)
        await self.account("conversation.unshare", key)
        found_or_missing(await self._write(shares.take_back, key, share), "share", share_id)

    @acting("ready")
    async def shared(self, secret: str) -> tuple[str, str]:
        """The title of a link's conversation, and all of it as Markdown, as whoever gave the link may read it now.
        Raises NotFound for any other reason."""
        found = None
        if self.core.settings.server.share_days:
            found = await self._read(shares.find, secret)
        key, giver = found_or_missing(found, "shared conversation", "of this link")
        detail = await self._read(conversations.detail, key, giver)
        read = found_or_missing(detail, "shared conversation", "of this link")
        self.note("conversation.opened", key, collection=read.collection)
        # What the giver thought of answers is not for others.
        turns = tuple(turn.model_copy(update={"feedback": None}) for turn in read.messages)
        return read.title, export.as_markdown(read.model_copy(update={"messages": turns}))
