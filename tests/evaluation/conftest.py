"""The town and its model, as in the tests of synth."""

from tests.synth.conftest import documents, town, words

__all__ = ["documents", "town", "words"]
