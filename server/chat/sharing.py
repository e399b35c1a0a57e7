"""The part of the service that lets a conversation be read by a link, where the operator allows it."""

from __future__ import annotations

from server.access import Seen
from server.chat.acting import acting
from server.chat.conversations import MAX_QUERY_CHARS, ConversationMixin, clean, found_or_missing
from server.chat.errors import Forbidden, InvalidRequest
from server.chat.translated import store_errors
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
        key = clean(conversation_id, MAX_QUERY_CHARS, "conversation_id")
        await self.demand_change(key)
        with store_errors():
            await self.account("conversation.share", key)
            made, secret = await self.core.database.write(
                lambda connection: shares.give(connection, key, self.principal, (days or most) * DAY)
            )
        return NewShare(**made.model_dump(), path=f"/shared/{secret}")

    @acting("change")
    async def shares(self, conversation_id: str) -> list[Share]:
        """The links to a conversation that have not expired. Raises NotFound."""
        key = clean(conversation_id, MAX_QUERY_CHARS, "conversation_id")
        await self.demand_change(key)
        with store_errors():
            return await self.core.database.read(lambda connection: shares.listing(connection, key))

    @acting("change")
    async def take_back_share(self, conversation_id: str, share_id: str) -> None:
        """Make a link useless. Raises NotFound."""
        key, share = (clean(text, MAX_QUERY_CHARS, "share_id") for text in (conversation_id, share_id))
        await self.demand_change(key)
        with store_errors():
            await self.account("conversation.unshare", key)
            gone = await self.core.database.write(lambda connection: shares.take_back(connection, key, share))
        found_or_missing(gone or None, "share", share_id)

    @acting("ready")
    async def shared(self, secret: str) -> tuple[str, str]:
        """The title of a link's conversation, and all of it as Markdown, as whoever gave the link may read it now.
        Raises NotFound for any other reason."""
        found = None
        with store_errors():
            if self.core.settings.server.share_days:
                found = await self.core.database.read(lambda connection: shares.find(connection, secret))
            key, giver = found_or_missing(found, "shared conversation", "of this link")
            detail = await self.core.database.read(
                lambda connection: conversations.detail(connection, key, Seen(giver))
            )
        read = found_or_missing(detail, "shared conversation", "of this link")
        self.note("conversation.opened", key, collection=read.collection)
        # What the giver thought of answers is not for others.
        turns = tuple(turn.model_copy(update={"feedback": None}) for turn in read.messages)
        return read.title, export.as_markdown(read.model_copy(update={"messages": turns}))
