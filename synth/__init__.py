"""Propositions and annotated dialogs made from documents, by any language model, live or through batch files.

The names listed here are the public ones; they are imported on first use. Documents, an encoder and a `langchain_core`
chat model are handed in: a `TaskRunner` brings a run's tasks to an outcome with an asker's answers and the journal's,
and `synthesise` does the run.
"""

from text.modules import exports

__all__, __getattr__ = exports(__name__, __file__)
