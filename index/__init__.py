"""Documents, passages and the search over them: Anaphora's retrieval, usable on its own.

The names listed here are the ones a program needs; they are imported on first use, so that importing the package is
cheap. Authors of a vector store or a loader find the contracts in `index.stores` and `index.loaders`.
"""

from text.modules import exports

__all__, __getattr__ = exports(__name__, __file__)
