"""The page that whoever asks is reading: its passages are favoured, and its words say what a question leans on.

A query beside the others finds passages of the page alone, within the filter of the search. It is a prior: its weight
is small enough that a question about something else finds that (`benchmarks/bench_page.py`). The words are context for
what reads the question, and not searched with: on another page they would lead astray.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from index.query import Query, Where
from rewriter.protocol import Conversation, Message
from server.settings.profile import RetrievalProfile

VARIANT = "page"
"""Names the query that finds passages of the page."""

LEANS = 0.5
"""From this probability on a question is taken to lean on more than its words."""


@dataclass(frozen=True, slots=True)
class ReadPage:
    """A page that is read: `words` are its title and heading; its passages are those of the first filter of `within`
    that fits any. `address` is for those who count what is read."""

    words: str = ""
    within: tuple[Where, ...] = ()
    address: str = ""

    @property
    def as_history(self) -> Conversation:
        """The words as what was said before a first question."""
        return Conversation((Message("user", self.words),) if self.words else ())

    def queries(
        self, question: str, needed: float | None, others: Sequence[Query], profile: RetrievalProfile
    ) -> tuple[Query, ...]:
        """Return the query that favours the page; none where nothing is known of it.

        Its weight is a share of what `others` weigh, and grows with the probability that the question leans on more
        than its words.
        """
        share = profile.page * math.exp(profile.page_exponent * ((LEANS if needed is None else needed) - LEANS))
        weight = share * sum(query.lexical + query.dense for query in others if not query.document_prior_weight) / 2
        if not self.within or weight <= 0:
            return ()
        return (Query(question, VARIANT, lexical=weight, dense=weight, within=self.within),)


NO_PAGE = ReadPage()
