"""Sentences compared with a question by the vectors of the search, where no cross-encoder here knows their language.

The registered cross-encoders learnt from English: of Japanese sentences they say much the same whether one answers or
not. The vectors of `multilingual-e5-small` tell both apart, and with the words that match a little better
(`docs/lab/languages.md`). Its cosines all lie between .7 and 1, so the numbers here go with that one model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from server.turn.events import Evidence
from server.turn.evidence import Compare
from server.turn.search import Searchable
from server.turn.support import Support
from text.languages import ENGLISH, language_of

ENCODER = "multilingual-e5-small:int8:6ef12e78"
"""The model whose cosines these are, by the name that an encoder has."""

SURE = 0.905
"""A cosine, with the words that match, from which a sentence is quoted."""
WORDS = 0.1
"""How much the share of the question's words that a sentence holds adds to its cosine."""
LOGITS = 60.0
"""What a step of 1 is on the scale of a cross-encoder's scores, by which doubt and further quotes are measured."""

_READ_CHARS = 2_000


def comparison(searched: Searchable, question: str, passages: Sequence[Evidence]) -> Compare | None:
    """Return how to compare sentences of the passages with a question; None where cross-encoders read both.

    None as well where the collection has another encoder than `ENCODER`. Blocks.
    """
    texts = " ".join(passage.text for passage in passages)[:_READ_CHARS]
    foreign = {language_of(question), language_of(texts)} - {"", ENGLISH}
    if not passages or not foreign or searched.similarities(question, (), ENCODER) is None:
        return None
    places = {passage.n: passage for passage in passages}
    return lambda asked, quotable: _compared(searched, asked, quotable, places)


def _compared(
    searched: Searchable, question: str, quotable: Sequence[tuple[float, Support]], places: Mapping[int, Evidence]
) -> list[tuple[float, Support]]:
    above = {n: " ".join((place.title, *place.heading)) for n, place in places.items()}
    texts = [f"{above[quote.n]}\n{quote.quote}" for _, quote in quotable]
    cosines = searched.similarities(question, texts, ENCODER) or [0.0] * len(texts)
    scored = [
        (LOGITS * (cosine + WORDS * words - SURE), quote)
        for cosine, (words, quote) in zip(cosines, quotable, strict=True)
    ]
    return sorted(scored, key=lambda pair: -pair[0])
