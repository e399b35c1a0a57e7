"""Propositions and annotated dialogs made from documents, by any language model, live or through batch files.

What is named here is all that a program needs, and is imported when it is first used. Documents, an encoder and a
`langchain_core` chat model are handed in: a `Settler` brings a run's tasks to an outcome with an asker's answers and
the journal's, and `synthesise` does the run.
"""

from text.modules import exports

__all__, __getattr__ = exports(__name__, __file__)
