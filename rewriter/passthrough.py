"""The rewriter that rewrites nothing: the fused legs alone carry the conversation."""

from __future__ import annotations

from rewriter.conversation import Conversation
from rewriter.protocol import Rewrite


class PassThroughRewriter:
    """Keeps every question as typed.

    It has no belief about whether the question stands alone, except that one without a conversation
    before it does: hence confidence 1 there, and none elsewhere.
    """

    @property
    def name(self) -> str:
        return "none"

    def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
        """The typed question, at once."""
        return Rewrite(question, "keep", confidence=None if conversation else 1.0)

    async def arewrite(self, conversation: Conversation, question: str) -> Rewrite:
        """As `rewrite`: a turn need not go to a thread for it."""
        return self.rewrite(conversation, question)
