"""Passages that one answer cited and that say different things: one of them is outdated, or both need a word more.

Sentences about the same that share most of their words are read against each other, both ways, by the model that reads
answers against their sources (`server.turn.support`). Where sentences differ as their headings do, or in code or
an address, they speak of different things.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice, product

from index.documents import MetadataValue
from server.store.records import StoredTurn, View
from server.turn.events import CitationEvent
from server.turn.support import CONTRADICTED, PairModel, evidence_text, plain, statement_text
from text.sentences import sentences
from text.words import negations, numbers, quoted_terms, stems

READ, SHOWN = 60, 20
"""Pairs of sentences that are read, and disagreements that are shown."""
SENTENCES = 6
SHARED, FEWEST = 0.6, 3
"""The share of the words of the shorter sentence that the other one has, and the fewest such words."""
SURE = 0.9
"""The chance of a contradiction, both ways, from which on the model alone is believed."""


class Quoted(View):
    """A sentence of a section."""

    document_id: str
    title: str
    heading: str
    sentence: str
    url: str


class Disagreement(View):
    """Two cited sentences that say different things, and the newest turn that cited both."""

    first: Quoted
    second: Quoted
    question: str
    turn: str


def disagreements(
    turns: Sequence[StoredTurn], model: PairModel, apart: Mapping[str, Mapping[str, MetadataValue]]
) -> list[Disagreement]:
    """Return the disagreements among what these turns cite, newest first; blocks.

    `apart` has the metadata of documents, by id, that people choose by: documents of another version or product may say
    something else.
    """
    pairs = dict[tuple[str, str], Disagreement]()
    for turn in turns:
        cited = dict.fromkeys(map(_quoted, turn.done.citations if turn.done else ()))
        for first, second in combinations(cited, 2):
            if apart.get(first.document_id) != apart.get(second.document_id):
                continue
            for one, other in said_otherwise(first, second):
                row = Disagreement(first=one, second=other, question=turn.question, turn=turn.id)
                pairs.setdefault((min(one.sentence, other.sentence), max(one.sentence, other.sentence)), row)
    read = islice(pairs.values(), READ)
    return list(islice((row for row in read if disagree(model, row.first, row.second)), SHOWN))


def _quoted(citation: CitationEvent) -> Quoted:
    return Quoted(**{**dict(citation), "heading": " › ".join(citation.heading), "sentence": citation.quote})


def said_otherwise(first: Quoted, second: Quoted) -> Iterator[tuple[Quoted, Quoted]]:
    """Yield the sentences of two quotes from different sections that speak of the same in other words."""
    above, beside = (set(stems(f"{side.title} {side.heading}")) for side in (first, second))
    if not above & beside or (first.document_id, first.heading) == (second.document_id, second.heading):
        return
    for one, other in product(_sentences(first.sentence), _sentences(second.sentence)):
        words, others = set(stems(one)), set(stems(other))
        shared = words & others
        same = words == others and bool(negations(one)) == bool(negations(other))
        if same or len(shared) < max(FEWEST, SHARED * min(len(words), len(others))):
            continue
        differs = (words - others) & (above - beside) or (others - words) & (beside - above)
        if not differs and quoted_terms(one) == quoted_terms(other) and "://" not in one + other:
            yield first.model_copy(update={"sentence": one}), second.model_copy(update={"sentence": other})


def _sentences(quote: str) -> Iterable[str]:
    prose = (part for part in sentences(quote) if part.kind != "code")
    return (text for part in islice(prose, SENTENCES) if (text := plain(quote[part.start : part.end])))


def disagree(model: PairModel, one: Quoted, other: Quoted) -> bool:
    """Return whether each of two sentences says something else than the other; blocks."""
    chances = [
        model.read(statement_text(said.sentence), evidence_text(beside.heading, [beside.sentence], 0)).contradicted
        for said, beside in ((one, other), (other, one))
    ]
    values, others = numbers(one.sentence), numbers(other.sentence)
    turned = bool(negations(one.sentence)) != bool(negations(other.sentence)) or bool(
        values and others and values != others
    )
    return min(chances) >= (CONTRADICTED if turned else SURE)
