"""Conversations, and rewriters that make a question stand alone."""

from rewriter.conversation import Conversation, Role, Turn
from rewriter.passthrough import PassThroughRewriter
from rewriter.prompted import PromptedRewriter
from rewriter.protocol import AsyncRewriter, Decision, Rewrite, Rewriter

__all__ = [
    "AsyncRewriter",
    "Conversation",
    "Decision",
    "PassThroughRewriter",
    "PromptedRewriter",
    "Rewrite",
    "Rewriter",
    "Role",
    "Turn",
]
