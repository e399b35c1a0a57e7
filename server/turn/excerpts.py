"""What of each passage a model reads: the sentences that speak to the question, within a budget of tokens.

A small model on a processor reads some forty to ninety tokens a second, so what it need not read is time to the
first token. The evidence that people see, and that citations are checked against, stays whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from server.turn.events import Evidence
from server.turn.evidence import HEADER_TOKENS
from server.turn.support import Support, SupportScorer
from server.turn.tables import table_rows
from server.turn.tokens import count_tokens

GAP = " … "
"""Stands for what is left out between two sentences."""

_RANK_DISCOUNT = 0.08
_BESIDE = 0.6
"""A sentence's worth beside one that matches: an answer often stands in the sentence after."""


def excerpts(question: str, evidence: Sequence[Evidence], scorer: SupportScorer, budget: int) -> dict[int, str]:
    """The text of each passage to show, by its number, at most `budget` tokens in all with their headers.

    Everything where it fits. Else the best sentences, in reading order; a passage of which none was chosen is
    left out. At least one sentence is always there, even where it alone is larger than the budget.
    """
    if sum(_header(passage) + count_tokens(passage.text) for passage in evidence) <= budget:
        return {passage.n: passage.text for passage in evidence}
    places = {passage.n: passage for passage in evidence}
    found = {passage.n: scorer.matches(question, passage.n) for passage in evidence}
    chosen: dict[int, set[int]] = {}
    spent = 0
    for _, n, i in sorted(_ranked(evidence, found), key=lambda one: (-one[0], one[1], one[2])):
        cost = count_tokens(found[n][i].quote) + (0 if n in chosen else _header(places[n]))
        if spent + cost > budget and chosen:
            continue
        chosen.setdefault(n, set()).add(i)
        spent += cost
    return {n: _joined(places[n], [found[n][i] for i in sorted(picked)]) for n, picked in sorted(chosen.items())}


def _ranked(evidence: Sequence[Evidence], found: dict[int, list[Support]]) -> list[tuple[float, int, int]]:
    """Each sentence with its worth: its own match, or a share of its better neighbour's."""
    ranked = []
    for rank, passage in enumerate(evidence):
        scores = [sentence.score for sentence in found[passage.n]]
        for i, own in enumerate(scores):
            beside = max(scores[max(i - 1, 0) : i] + scores[i + 1 : i + 2], default=0.0)
            ranked.append(((1 - _RANK_DISCOUNT * rank) * max(own, _BESIDE * beside), passage.n, i))
    return ranked


def _joined(passage: Evidence, sentences: Sequence[Support]) -> str:
    rows = table_rows(passage.text)
    text, end = "", None
    for sentence in sentences:
        start = sentence.start - passage.start
        between = passage.text[end:start] if end is not None else ""
        text += (GAP if between.strip() else between) + rows.get(start, sentence.quote)
        end = sentence.end - passage.start
    return text


def _header(passage: Evidence) -> int:
    return HEADER_TOKENS + count_tokens(" ".join((passage.title, *passage.heading)))
