"""The numbered evidence of a turn: which found passages the answerer is given, within a budget of tokens.

Passages keep the order of the search, best first, and are never cut in the middle: one that does not fit is
left out and a later, shorter one may take its place. How they are shown to a model is `server.turn.prompt`'s
business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from index.documents import Document
from index.query import Hit
from server.turn.events import Evidence
from server.turn.tokens import count_tokens

HEADER_TOKENS = 12
"""Tokens that number and delimit one passage, beside its title and heading path."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The passages chosen, numbered from 1, and the tokens they are expected to cost."""

    passages: tuple[Evidence, ...]
    tokens: int


def select_evidence(
    hits: Sequence[Hit], *, limit: int, budget: int, document: Callable[[str], Document] | None = None
) -> Selection:
    """At most `limit` of `hits` within `budget` tokens; the first hit always, even where it alone is larger.

    `document` looks a document up by id; it is asked only for passages whose text is not their source
    text (propositions), to show the source beside them.
    """
    chosen: list[Evidence] = []
    spent = 0
    seen: set[tuple[str, int, int]] = set()
    for hit in hits:
        if len(chosen) == limit:
            break
        place = (hit.passage.document_id, hit.passage.start, hit.passage.end)
        cost = passage_tokens(hit)
        if place in seen or (chosen and spent + cost > budget):
            continue
        seen.add(place)
        spent += cost
        chosen.append(_number(len(chosen) + 1, hit, document))
    return Selection(tuple(chosen), spent)


def passage_tokens(hit: Hit) -> int:
    """Tokens one passage costs in a prompt, its header included."""
    return HEADER_TOKENS + count_tokens(hit.passage.indexed_text)


def _number(n: int, hit: Hit, document: Callable[[str], Document] | None) -> Evidence:
    passage = hit.passage
    text = passage.text
    if passage.kind == "proposition" and document is not None:
        text = document(passage.document_id).text[passage.start : passage.end]
    return Evidence(
        n=n,
        passage_id=passage.id,
        document_id=passage.document_id,
        title=passage.title,
        heading=list(passage.heading),
        page=passage.page,
        start=passage.start,
        end=passage.end,
        text=text,
        source=str(passage.metadata.get("source", "")),
        score=hit.score,
        ranks=dict(hit.ranks),
    )
