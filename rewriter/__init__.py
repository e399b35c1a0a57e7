"""Conversations, and rewriters that make a question stand alone; usable on its own.

What is named here is all that a program needs, and is imported when it is first used. A family of rewriters is served
by `rewriter.load` and trained by `rewriter.training`.
"""

from text.modules import exports

__all__, __getattr__ = exports(__name__, __file__)
