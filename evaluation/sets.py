"""Sets of judged questions: questions in their conversations, and what is relevant to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, TypeAlias, TypeVar

from evaluation.metrics import Qrels
from evaluation.questions import JudgedQuestion, Question, Quote, document_id, qrels, read_questions, relevant, spans

if TYPE_CHECKING:
    from index.collection import Collection

Place: TypeAlias = tuple[str, int, int]
"""A document id, and offsets of a span in its text."""

By: TypeAlias = Literal["unit", "document", "parents"]


@dataclass(frozen=True, slots=True)
class JudgedLevel:
    """The judged units: the searched passages, their documents, or another unit they belong to.

    With `by` `parents`, `parents` maps a unit to what it belongs to, and `qrels` judges those.
    """

    name: str
    qrels: Qrels
    by: By = "unit"
    parents: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EvalSet:
    """Questions about a collection, and what is relevant to them.

    `quotes` are judgements too, by question: `placed` finds their passages in the collection.
    """

    name: str
    questions: tuple[Question, ...]
    levels: tuple[JudgedLevel, ...] = ()
    quotes: Mapping[str, tuple[Quote, ...]] = field(default_factory=dict)

    def every(self, n: int) -> Self:
        """The same with every `n`th question only."""
        return replace(self, questions=self.questions[::n])

    def every_dialog(self, n: int) -> Self:
        """The same with the questions of every `n`th dialog only."""
        chosen = set(list(dict.fromkeys(question.dialog for question in self.questions))[::n])
        return replace(self, questions=tuple(question for question in self.questions if question.dialog in chosen))

    def passages(self) -> dict[str, dict[str, int]]:
        """The passages that are relevant to each question that has any."""
        graded: dict[str, dict[str, int]] = {}
        for level in self.levels:
            for question, passages in level.qrels.items() if level.by == "unit" else ():
                wanted = {name: grade for name, grade in passages.items() if grade > 0}
                if wanted:
                    graded.setdefault(question, {}).update(wanted)
        return graded

    @property
    def judged(self) -> tuple[Question, ...]:
        """The questions that some level has a judgement for, or a quote."""
        return tuple(
            q for q in self.questions if self.quotes.get(q.id) or any(level.qrels.get(q.id) for level in self.levels)
        )


S = TypeVar("S", bound=EvalSet)

DEPTHS = ((1, 1, "1"), (2, 2, "2"), (3, 3, "3"), (4, 5, "4-5"), (6, 8, "6-8"), (9, 10_000, "9+"))


def slices(question: Question) -> list[str]:
    """The parts of a set a question is counted in: all, first or follow-up, turn, domain, kind, answerability, need."""
    parts = ["all", "follow-ups" if question.conversation else "first questions"]
    parts += [f"turn {name}" for low, high, name in DEPTHS if low <= question.depth <= high]
    parts += [f"{name} {value}" for name in ("domain", "kind", "answerability") if (value := getattr(question, name))]
    if question.needs_rewrite is not None:
        parts.append("needs rewriting" if question.needs_rewrite else "stands alone")
    return parts


def placed(chosen: S, collection: Collection) -> S:
    """The set judged by passage and by document of the collection, where it has quotes; else the set itself.

    Quotes of documents that the collection lacks, or that no passage holds, judge nothing.
    """
    if not chosen.quotes:
        return chosen
    passages: dict[str, dict[str, int]] = {}
    documents: dict[str, dict[str, int]] = {}
    for question, places in quoted_places(chosen, collection).items():
        for name, start, end in places:
            if ids := relevant(collection.passages(name), [(start, end)]):
                passages.setdefault(question, {}).update(dict.fromkeys(ids, 1))
                documents.setdefault(question, {})[name] = 1
    levels = (JudgedLevel("passage", passages), JudgedLevel("document", documents, "document"))
    return replace(chosen, levels=(*chosen.levels, *levels), quotes={})


def quoted_places(chosen: EvalSet, collection: Collection) -> dict[str, tuple[Place, ...]]:
    """Return the places of each question's quotes in the collection; questions without any are left out."""
    documents = {document.id for document in collection.documents()}
    places: dict[str, tuple[Place, ...]] = {}
    for question, quotes in chosen.quotes.items():
        named = ((document_id(quote.document, documents), quote.text) for quote in quotes)
        where = tuple(
            (name, start, end)
            for name, quote in named
            if name
            for start, end in spans(collection.document(name).text, quote)
        )
        if where:
            places[question] = where
    return places


def judged_set(name: str, questions: Iterable[JudgedQuestion], unit: str = "passage") -> EvalSet:
    """A set of questions judged by what each names: units, documents, quotes."""
    questions = list(questions)
    units, documents = qrels(questions)
    levels = []
    if units:
        levels.append(JudgedLevel(unit, units))
    if documents:
        levels.append(JudgedLevel("document", documents, "document"))
    quotes = {judged.question.id: judged.quotes for judged in questions if judged.quotes}
    return EvalSet(name, tuple(judged.question for judged in questions), tuple(levels), quotes)


def own_questions(path: Path) -> EvalSet:
    """Questions of a file about an indexed collection. Raises BadRow or MissingSet."""
    return judged_set(path.stem, read_questions(path))
