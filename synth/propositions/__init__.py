"""Propositions: stand-alone sentences that a model wrote from documents, each tied to its source span."""
