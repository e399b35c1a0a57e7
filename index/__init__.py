"""Documents, passages and the search over them: Anaphora's retrieval, usable on its own.

What is named here is all that a program needs, and is imported when it is first used, so that importing the room costs
nothing. Whoever writes a vector store or a loader finds its contract in `index.stores` and `index.loaders`.
"""

from text.modules import exports

__all__, __getattr__ = exports(__name__, __file__)
