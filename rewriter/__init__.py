"""Conversations, and rewriters that make a question stand alone."""

from rewriter.conversation import Conversation, Message, Role
from rewriter.passthrough import PassThroughRewriter
from rewriter.prompted import PromptedRewriter
from rewriter.protocol import AsyncRewriter, Decision, Rewrite, Rewriter

__all__ = [
    "AsyncRewriter",
    "Conversation",
    "Decision",
    "Message",
    "PassThroughRewriter",
    "PromptedRewriter",
    "Rewrite",
    "Rewriter",
    "Role",
]
