"""Answers without a language model: the best sentences of the evidence, quoted and cited.

Says that it quotes, and says nothing at all where no sentence matches the question well enough; the
measurements behind the threshold are in `docs/citations.md`.
"""

from __future__ import annotations

from collections.abc import Sequence

from server.turn.events import Evidence
from server.turn.support import Support, SupportScorer

INTRODUCTION = "No language model is at work, so these are sentences from the documents, as they stand:"
MATCHES = 0.4
"""A sentence scoring less is not quoted; chosen in `docs/citations.md`."""
QUOTES = 3


def best_sentences(question: str, evidence: Sequence[Evidence]) -> list[Support]:
    """Up to three sentences that match `question` best, each with its passage, best first; empty where none does."""
    scorer = SupportScorer(evidence)
    found = [support for passage in evidence if (support := scorer.best(question, [passage.n])) is not None]
    good = sorted((one for one in found if one.score >= MATCHES), key=lambda support: (-support.score, support.n))
    return good[:QUOTES]
