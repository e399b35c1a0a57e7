"""Conversations, and rewriters that make a question stand alone; usable on its own.

The names listed here are the public ones; they are imported on first use. A family of rewriters is served by
`rewriter.load` and trained by `rewriter.training`.
"""

from text.modules import exports

__all__, __getattr__ = exports(__name__, __file__)
