"""Cases that the decision is fitted on and judged by: questions that people marked, searched as in a turn.

A question that people answered from the documents is searched twice: as it is, and with its evidence left out, so that
how a question is put says nothing about whether the documents answer it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import regex

from evaluation.questions import json_rows, spans
from evaluation.retrieval import patient
from evaluation.sets import placed, quoted_places
from index.documents import Document, Hit, Passage, Query, Where
from index.encoders import Vectors
from papers.bench import Bench, index_set
from server.turn.decision import Outcome, language_of_hits, signals
from server.turn.search import Searchable, TurnSearch

if TYPE_CHECKING:
    from evaluation.questions import Question
    from index.collection import Collection
    from papers.datasets import DataSet
    from rewriter.protocol import Rewriter

Kind: TypeAlias = Literal["found", "missed", "left out", "unanswerable", "underspecified"]

RIGHT: Mapping[Kind, Outcome] = {
    "found": "answer",
    "missed": "answer",
    "left out": "refuse",
    "unanswerable": "refuse",
    "underspecified": "ask",
}
"""The right outcome of a search: `missed` is one for an answerable question that read none of its evidence. A model of
what has no answer learns more where it does not count as one; that no sentence answers is told by the sentence head."""

_MARKED: Mapping[str, Kind] = {"unanswerable": "unanswerable", "underspecified": "underspecified"}
READ_SECONDS = 60.0
TWIN = 0.6
"""Passages that share so much of their words (Jaccard) are near-duplicates."""
DEEPER = 1000
"""Passages found before some are dropped: more than all rankings of a search together."""

_WORD = regex.compile(r"[\p{L}\p{N}]+")


@dataclass(frozen=True, slots=True)
class Case:
    """One search of a marked question.

    `read` holds the signals where a cross-encoder read the passages, empty where it read none, `unread` those of the
    same search without it. `vector` is the question's by the encoder of the bench, `weight` how many questions it
    stands for, where some were not drawn.
    """

    id: str
    of_set: str
    dialog: str
    kind: Kind
    read: Mapping[str, float]
    unread: Mapping[str, float]
    vector: Sequence[float]
    weight: float = 1.0

    @property
    def right(self) -> Outcome:
        return RIGHT[self.kind]


class LeavingOut:
    """A collection without the passages that `dropped` names; the ranks of the others move up.

    The order is that of scores which were fused with those passages in.
    """

    def __init__(self, collection: Searchable, dropped: Callable[[Passage], bool]) -> None:
        self._collection = collection
        self._dropped = dropped

    @property
    def version(self) -> str:
        return self._collection.version

    def search(
        self, queries: Sequence[Query], k: int = 20, where: Where | None = None, depth: int = 100, rrf_k: int = 60
    ) -> list[Hit]:
        hits = self._collection.search(queries, k=DEEPER, where=where, depth=depth, rrf_k=rrf_k)
        gone = [hit for hit in hits if self._dropped(hit.passage)]
        left = [hit for hit in hits if hit not in gone]
        # Passages of one document share its rank: there is a gap only where none is left.
        gaps = {place for hit in gone for place in hit.ranks.items()} - {
            place for hit in left for place in hit.ranks.items()
        }

        def moved(name: str, rank: int) -> int:
            return rank - sum(gap < rank for at, gap in gaps if at == name)

        return [replace(hit, ranks={name: moved(name, rank) for name, rank in hit.ranks.items()}) for hit in left[:k]]

    def document(self, document_id: str) -> Document:
        return self._collection.document(document_id)

    def question_vector(self, text: str, encoder: str) -> Vectors | None:
        return self._collection.question_vector(text, encoder)


def collect_cases(
    chosen: Sequence[DataSet], bench: Bench, rewriter: Rewriter, path: Path, *, answerable: float = 1.0
) -> list[Case]:
    """The cases of every marked question, each kept in the file `path` at once; those already there are not searched.

    Of the answerable questions the share `answerable` is drawn.
    """
    known = {case.id: case for case in read_cases(path)} if path.exists() else {}
    cases: list[Case] = []
    with path.open("a", encoding="utf-8") as file:
        for eval_set in chosen:
            with closing(bench.open(index_set(eval_set, bench))) as collection:
                for case in _SetCases(eval_set, collection, bench, rewriter, answerable).cases(known):
                    if case.id not in known:
                        file.write(json.dumps(asdict(case)) + "\n")
                        file.flush()
                    cases.append(case)
    return cases


def read_cases(path: Path) -> Iterator[Case]:
    """The cases of a run."""
    for _, row in json_rows(path):
        yield Case(**row)


def drawn(questions: Sequence[Question], share: float) -> list[Question]:
    """All questions but of those marked answerable, or not marked, only that share; always the same ones."""
    return [
        question
        for question in questions
        if question.answerability not in ("answerable", "") or random.Random(f"5:{question.id}").random() < share
    ]


class _SetCases:
    """The cases of one set, in its collection."""

    def __init__(
        self, eval_set: DataSet, collection: Collection, bench: Bench, rewriter: Rewriter, answerable: float
    ) -> None:
        self._set, self._collection, self._bench, self._rewriter = eval_set, collection, bench, rewriter
        self._questions = drawn(eval_set.questions, answerable)
        self._weight = 1 / answerable
        self._places = quoted_places(eval_set, collection)
        self._gold: dict[str, set[str]] = {}
        for level in placed(eval_set, collection).levels:
            for question, grades in level.qrels.items() if level.by == "unit" else ():
                self._gold.setdefault(question, set()).update(name for name, grade in grades.items() if grade > 0)
        passages = (passage for document in collection.documents() for passage in collection.passages(document.id))
        self._words = {passage.id: frozenset(_WORD.findall(passage.text.casefold())) for passage in passages}

    def cases(self, known: Mapping[str, Case]) -> Iterator[Case]:
        for done, question in enumerate(self._questions):
            self._bench.progress(f"{self._set.name}: searching", done, len(self._questions))
            if kind := _MARKED.get(question.answerability):
                yield known.get(question.id) or self._case(question, question.id, self._collection, kind)
            elif question.answerability in ("answerable", "partial", "") and self._gold.get(question.id):
                yield known.get(question.id) or self._case(question, question.id, self._collection)
                name = f"{question.id} left out"
                without = LeavingOut(self._collection, self._evidence(question))
                yield known.get(name) or self._case(question, name, without, "left out")

    def _evidence(self, question: Question) -> Callable[[Passage], bool]:
        """Whether a passage overlaps a place of the question's evidence, holds a quote of it, or is its twin."""
        gold, places = self._gold[question.id], self._places.get(question.id, ())
        quotes = [quote.text for quote in self._set.quotes.get(question.id, ())]
        worded = [self._words[name] for name in gold if name in self._words]

        def holds(passage: Passage) -> bool:
            words = self._words[passage.id]
            return (
                passage.id in gold
                or any(
                    name == passage.document_id and start < passage.end and passage.start < end
                    for name, start, end in places
                )
                or any(len(words & other) >= TWIN * len(words | other) for other in worded)
                or any(spans(passage.text, quote) for quote in quotes)
            )

        return holds

    def _case(self, question: Question, name: str, searched: Searchable, kind: Kind | None = None) -> Case:
        settings, language = self._bench.settings, self._bench.settings.index.language
        search = TurnSearch(
            collection=lambda _: searched,
            rewriter=self._rewriter,
            settings=patient(settings, READ_SECONDS),
            reranker=self._bench.reading or self._bench.reranker,
        )
        wanted = {"collection": "", "conversation": question.conversation, "k": settings.retrieval.profile.rerank_top}
        found = search.find(question.text, **wanted)
        plain = replace(search, reranker=None).find(question.text, **wanted)
        if kind is None:
            kind = "found" if self._gold[question.id] & {hit.passage.id for hit in found.hits} else "missed"
        vector = searched.question_vector(question.text, self._bench.encoder.name)
        return Case(
            name,
            self._set.name,
            question.dialog,
            kind,
            signals(found.plan, found.hits, language_of_hits(found.hits, language)) if found.reranked else {},
            signals(plain.plan, plain.hits, language_of_hits(plain.hits, language)),
            [] if vector is None else [round(float(value), 4) for value in vector],
            1.0 if question.answerability not in ("answerable", "") else self._weight,
        )
