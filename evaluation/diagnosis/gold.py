"""Questions whose answers are known: the lines of a file, and where in a collection the answers stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation.questions import BadRow, JudgedQuestion, Quote, document_id, read_questions, relevant, spans
from text.words import stems

if TYPE_CHECKING:
    from index.collection import Collection
    from index.query import Passage

TWIN_WORDS = 6
"""A quote of so many words answers in any document that holds it; a shorter one may stand elsewhere by chance."""
HOLDS = 0.8
"""A passage with this share of an answer's words holds the answer, where no quote says which does."""
MOST_PASSAGES = 3


def read_gold(path: Path) -> list[JudgedQuestion]:
    """The questions of a file. One without an answer and without a quote is not answered in the documents.

    Raises BadRow or MissingSet as `read_questions`, and BadRow for a question that only names where its answer stands.
    """
    golds = []
    for gold in read_questions(path):
        answerable = bool(gold.question.answer or gold.quotes)
        if not answerable and (gold.documents or gold.relevant):
            raise BadRow(
                f'{path}: {gold.question.id} names where the answer stands, and neither "answer" nor "quotes" says '
                "what it is."
            )
        answerability = "answerable" if answerable else "unanswerable"
        golds.append(replace(gold, question=replace(gold.question, answerability=answerability)))
    return golds


@dataclass(frozen=True, slots=True)
class GoldPlace:
    """Where one part of an answer stands: stretches of documents and ids of passages; nowhere if there are none."""

    quote: Quote
    stretches: tuple[tuple[str, int, int], ...]
    passages: tuple[str, ...]

    def held(self, evidence: Sequence[Any]) -> bool:
        """Whether one of these passages (`document_id`, `passage_id`, `start`, `end`, `text`) holds it."""
        return any(
            row["passage_id"] in self.passages
            or (
                bool(self.quote.text and len(self.quote.text.split()) >= TWIN_WORDS)
                and bool(spans(row["text"], self.quote.text))
            )
            or any(
                document == row["document_id"]
                and 2 * (min(end, row["end"]) - max(start, row["start"])) >= min(end - start, row["end"] - row["start"])
                for document, start, end in self.stretches
            )
            for row in evidence
        )


class GoldIndex:
    """Finds answers in a collection; its texts are read once, when they are first needed."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._known = {document.id for document in collection.documents()}
        self._texts: dict[str, str] = {}
        self._passages: dict[str, list[Passage]] = {}

    def places(self, gold: JudgedQuestion) -> list[GoldPlace]:
        """Where each quote stands, or else the answer; all of them are needed. None for an unanswerable question."""
        if gold.quotes:
            return [self._quoted(quote) for quote in gold.quotes]
        if gold.question.answer:
            return [self._answered(gold)]
        return []

    def _quoted(self, quote: Quote) -> GoldPlace:
        own = document_id(quote.document, self._known)
        names = [own] if own else []
        if not quote.document or len(quote.text.split()) >= TWIN_WORDS:
            names += sorted(self._known - {own})
        stretches, passages = list[tuple[str, int, int]](), list[str]()
        for name in names:
            if matches := spans(self._text(name), quote.text):
                held = relevant(self._of(name), matches)
                passages += held
                stretches += [(name, *place) for place in matches if held]
        return GoldPlace(quote, tuple(stretches), tuple(passages))

    def _answered(self, gold: JudgedQuestion) -> GoldPlace:
        """The passages with most of the answer's words, in the documents that are named, if any."""
        names = [name_or_none for document in gold.documents if (name_or_none := document_id(document, self._known))]
        if gold.relevant:
            there = [
                passage.id for name in names or self._known for passage in self._of(name) if passage.id in gold.relevant
            ]
            return GoldPlace(Quote("", ""), (), tuple(there))
        wanted = frozenset(stems(gold.question.answer))
        every = names if gold.documents else sorted(self._known)
        scored = [
            (len(wanted & held) / max(1, len(wanted)), passage, n) for name in every
            for n, (passage, held) in enumerate(self._stems[name])
        ]  # fmt: skip
        best = sorted((pair for pair in scored if pair[0] >= HOLDS), key=lambda pair: (-pair[0], pair[2]))
        return GoldPlace(Quote("", ""), (), tuple(passage for _, passage, _ in best[:MOST_PASSAGES]))

    @cached_property
    def _stems(self) -> dict[str, list[tuple[str, frozenset[str]]]]:
        return {
            name: [(passage.id, frozenset(stems(passage.text))) for passage in self._of(name)] for name in self._known
        }

    def _text(self, name: str) -> str:
        if name not in self._texts:
            self._texts[name] = self._collection.document(name).text
        return self._texts[name]

    def _of(self, name: str) -> list[Passage]:
        if name not in self._passages:
            self._passages[name] = self._collection.passages(name)
        return self._passages[name]
