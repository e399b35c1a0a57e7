"""Conversations, and rewriters that make a question stand alone; usable on its own.

What is named here is all that a program needs, and is imported when it is first used. A family of rewriters is served
by `rewriter.load` and trained by `rewriter.training`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewriter.conversation import Conversation, Message
    from rewriter.errors import RewriterError, RunError
    from rewriter.load import Serving, load_rewriter
    from rewriter.passthrough import PassThroughRewriter
    from rewriter.prompted import PromptedRewriter
    from rewriter.protocol import AsyncRewriter, Decision, Rewrite, Rewriter
    from rewriter.training import read_recipe, train

__all__ = [
    "AsyncRewriter",
    "Conversation",
    "Decision",
    "Message",
    "PassThroughRewriter",
    "PromptedRewriter",
    "Rewrite",
    "Rewriter",
    "RewriterError",
    "RunError",
    "Serving",
    "load_rewriter",
    "read_recipe",
    "train",
]

_HOMES = {
    "conversation": ("Conversation", "Message"),
    "errors": ("RewriterError", "RunError"),
    "load": ("Serving", "load_rewriter"),
    "passthrough": ("PassThroughRewriter",),
    "prompted": ("PromptedRewriter",),
    "protocol": ("AsyncRewriter", "Decision", "Rewrite", "Rewriter"),
    "training": ("read_recipe", "train"),
}
_HOME = {name: f"rewriter.{module}" for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
