"""The numbered evidence of a turn: which found passages the answerer is given, within a budget of tokens.

Passages keep the order of the search, best first, and are never cut in the middle: one that does not fit is
left out and a later, shorter one may take its place. How they are shown to a model is `server.turn.prompt`'s
business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from index.documents import Document
from index.pools import SECTION_END, SECTION_START
from index.query import Hit, Passage
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
    text (propositions), which are shown as the section they come from, each section once.
    """
    chosen: list[Evidence] = []
    spent = 0
    seen: set[tuple[str, int, int]] = set()
    for hit in hits:
        if len(chosen) == limit:
            break
        start, end = _place(hit.passage)
        place = (hit.passage.document_id, start, end)
        if place in seen:
            continue
        shown = _shown(hit, document)
        cost = passage_tokens(shown)
        if chosen and spent + cost > budget:
            continue
        seen.add(place)
        spent += cost
        chosen.append(numbered(len(chosen) + 1, shown))
    return Selection(tuple(chosen), spent)


def passage_tokens(hit: Hit) -> int:
    """Tokens one passage costs in a prompt, its header included."""
    return HEADER_TOKENS + count_tokens(hit.passage.indexed_text)


def _place(passage: Passage) -> tuple[int, int]:
    """What of the document is shown for a passage: itself, or the section around a proposition's source."""
    if passage.kind != "proposition":
        return passage.start, passage.end
    around = passage.metadata.get(SECTION_START, passage.start), passage.metadata.get(SECTION_END, passage.end)
    return int(around[0]), int(around[1])


def _shown(hit: Hit, document: Callable[[str], Document] | None) -> Hit:
    if hit.passage.kind != "proposition" or document is None:
        return hit
    start, end = _place(hit.passage)
    text = document(hit.passage.document_id).text[start:end]
    return replace(hit, passage=replace(hit.passage, text=text, start=start, end=end))


def numbered(n: int, hit: Hit) -> Evidence:
    """A hit as evidence: its passage, word for word, under the number that markers cite it by."""
    passage = hit.passage
    return Evidence(
        n=n,
        passage_id=passage.id,
        document_id=passage.document_id,
        title=passage.title,
        heading=list(passage.heading),
        page=passage.page,
        start=passage.start,
        end=passage.end,
        text=passage.text,
        source=str(passage.metadata.get("source", passage.document_id)),
        score=hit.score,
        ranks=dict(hit.ranks),
    )
