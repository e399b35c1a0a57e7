"""How clearly a query points at something in a collection, told from its nearest passages.

"And by fax?" is about equally near to a great many passages; a question that stands alone is much
nearer to a few. That drop of similarity, from the nearest passage to the tenth, predicts how well a
query retrieves without looking at any relevance judgement, and costs nothing beside the search. The
measurements behind the constants stand in `docs/retrieval.md`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

RANK = 10
TYPICAL = 0.10
"""The drop at which a weight stays as it is: about the mean over follow-ups and first questions alike."""

_LARGEST = 2.0


def factor(similarities: Sequence[float], strength: float) -> float:
    """What to multiply a query's weights by, between e^-2 and e^2.

    `similarities` are cosines to the nearest passages, best first; with fewer than ten nothing is
    known, and the factor is 1. `strength` is the exponent per unit of similarity, 0 for none.
    """
    if strength <= 0 or len(similarities) < RANK:
        return 1.0
    drop = similarities[0] - similarities[RANK - 1]
    return math.exp(max(-_LARGEST, min(_LARGEST, strength * (drop - TYPICAL))))
