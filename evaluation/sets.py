"""Data sets by name: questions in their conversations, a corpus, and what is relevant.

`SETS` reads sets from a folder of data sets, `FOLDERS` a folder that is named after a colon. A program may add its own.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from evaluation.metrics import Qrels, read_qrels
from evaluation.questions import (
    BadRow,
    JudgedQuestion,
    MissingSet,
    Question,
    Quote,
    dialog_questions,
    document_id,
    json_rows,
    optional,
    present,
    qrels,
    question_of_row,
    read_questions,
    relevant,
    spans,
    text,
)

if TYPE_CHECKING:
    from index.collection import Collection

Row: TypeAlias = Mapping[str, object]
"""A row of `corpus.jsonl`: `_id`, `title`, `text`, `metadata`."""

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
    """A data set ready to be searched.

    `corpus` is a BEIR `corpus.jsonl`, a folder of documents, rows, or None where an indexed collection of the operator
    is searched. `quotes` are judgements too, by question: `placed` finds their passages in the collection. Sets of one
    `pool` are also measured together, by this name.
    """

    name: str
    corpus: Path | tuple[Row, ...] | None
    questions: tuple[Question, ...]
    levels: tuple[JudgedLevel, ...] = ()
    quotes: Mapping[str, tuple[Quote, ...]] = field(default_factory=dict)
    pool: str = ""

    def every(self, n: int) -> EvalSet:
        """The same with every `n`th question only."""
        return replace(self, questions=self.questions[::n])

    @property
    def judged(self) -> tuple[Question, ...]:
        """The questions that some level has a judgement for, or a quote."""
        return tuple(
            q for q in self.questions if self.quotes.get(q.id) or any(level.qrels.get(q.id) for level in self.levels)
        )


DEPTHS = ((1, 1, "1"), (2, 2, "2"), (3, 3, "3"), (4, 5, "4-5"), (6, 8, "6-8"), (9, 10_000, "9+"))


def slices(question: Question) -> list[str]:
    """The parts of a set a question is counted in: all, first or follow-up, turn, domain, kind, answerability, need."""
    parts = ["all", "follow-ups" if question.conversation else "first questions"]
    parts += [f"turn {name}" for low, high, name in DEPTHS if low <= question.depth <= high]
    parts += [f"{name} {value}" for name in ("domain", "kind", "answerability") if (value := getattr(question, name))]
    if question.needs_rewrite is not None:
        parts.append("needs rewriting" if question.needs_rewrite else "stands alone")
    return parts


def placed(chosen: EvalSet, collection: Collection) -> EvalSet:
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


def judged_set(
    name: str, corpus: Path | tuple[Row, ...] | None, questions: Iterable[JudgedQuestion], unit: str = "passage"
) -> EvalSet:
    """A set of questions judged by what each names: units, documents, quotes."""
    questions = list(questions)
    units, documents = qrels(questions)
    levels = []
    if units:
        levels.append(JudgedLevel(unit, units))
    if documents:
        levels.append(JudgedLevel("document", documents, "document"))
    quotes = {judged.question.id: judged.quotes for judged in questions if judged.quotes}
    return EvalSet(name, corpus, tuple(judged.question for judged in questions), tuple(levels), quotes)


def own_questions(path: Path) -> EvalSet:
    """Questions of a file about an indexed collection. Raises BadRow or MissingSet."""
    return judged_set(path.stem, None, read_questions(path))


_QRELS = ("qrels.tsv", "qrels/dev.tsv", "qrels/test.tsv", "qrels/validation.tsv")


def beir_folder(path: Path) -> EvalSet:
    """`corpus.jsonl`, `queries.jsonl` and `qrels.tsv` (or `qrels/dev.tsv`, `qrels/test.tsv`).

    Where rows of the corpus say which document they belong to (`metadata.doc_id`), documents are judged too: one
    with a relevant passage is relevant. Raises MissingSet or BadRow.
    """
    where = "A folder in BEIR form holds corpus.jsonl, queries.jsonl and qrels.tsv."
    corpus = present(path / "corpus.jsonl", "A corpus", where)
    queries = present(path / "queries.jsonl", "A file of questions", where)
    judgements = next((path / name for name in _QRELS if (path / name).is_file()), None)
    if judgements is None:
        raise MissingSet(f"{path} has no judgements: none of {', '.join(_QRELS)} exists. {where}")
    passages = _read_qrels(judgements)
    document_of = {
        str(row.get("_id")): str(row["metadata"]["doc_id"])
        for _, row in json_rows(corpus)
        if isinstance(row.get("metadata"), dict) and row["metadata"].get("doc_id")
    }
    documents = {
        question: {document_of[item]: 1 for item, grade in graded.items() if grade > 0 and item in document_of}
        for question, graded in passages.items()
    }
    levels = [JudgedLevel("passage", passages)]
    if document_of:
        levels.append(JudgedLevel("document", documents, "document"))
    questions = tuple(question_of_row(row, n).question for n, (_, row) in enumerate(json_rows(queries), 1))
    return EvalSet(path.resolve().name, corpus, questions, tuple(levels))


PRODUCT_SOURCE = "`docs/lab/evaluation.md` describes the files: you can write such dialogs over pages of your own."


def product_pages(data: Path, split: str, product: str) -> EvalSet:
    """The pages of a product as they are, and the questions of one part of the dialogs about it, judged by quotes."""
    rows = present(
        data / "product_dialogs" / f"dialogs.{split}.jsonl", "Dialogs over product documentation", PRODUCT_SOURCE
    )
    corpus = present(data / "product_docs" / product, f"The documentation of {product}", PRODUCT_SOURCE)
    questions = list(dialog_questions(rows, {"product": product}))
    if not questions:
        raise MissingSet(f"{rows} holds no dialog about {product!r}.")
    return replace(judged_set(f"product-{product}", corpus, questions), levels=(), pool="product")


def written_dialogs(folder: Path, split: str = "dev", name: str = "synthetic") -> EvalSet:
    """The propositions of a folder of `anaphora synth`; the questions of `dialogs.<split>.jsonl` or `dialogs.jsonl`."""
    where = "`anaphora synth` writes such a folder from documents of yours; docs/lab/evaluation.md describes its files."
    corpus = present(folder / "propositions.jsonl", "A set of propositions", where)
    path = folder / f"dialogs.{split}.jsonl"
    if not path.exists():
        path = present(folder / "dialogs.jsonl", f"A set of dialogs ({path.name}, or dialogs.jsonl)", where)
    rows = tuple(proposition_row(row, where) for where, row in json_rows(corpus))
    return judged_set(name, rows, dialog_questions(path), "proposition")


def proposition_row(row: Mapping[str, Any], where: str) -> Row:
    """A proposition as a row of a corpus, one passage a proposition."""
    return {
        "_id": text(row, "_id", where),
        "title": optional(row, "title"),
        "text": text(row, "text", where),
        "metadata": {"doc_id": text(row, "document_id", where)},
    }


def mtrag(data: Path, domain: str) -> EvalSet:
    """The passages of one domain (`cloud`, `govt`, …). Questions nobody could answer are in, unjudged."""
    where = (
        "MTRAG (Apache-2.0) is published at https://github.com/IBM/mt-rag-benchmark; docs/lab/evaluation.md describes "
        "the files expected here."
    )
    folder = present(data / "mtrag", "MTRAG", where)
    corpus = present(folder / domain / "corpus.jsonl", f"MTRAG's corpus of {domain}", where)
    passages = read_qrels(present(folder / domain / "qrels.tsv", f"MTRAG's judgements of {domain}", where))
    rows = present(folder / "dialogs.jsonl", "MTRAG's dialogs", where)
    questions = list(dialog_questions(rows, {"collection": domain}))
    if not questions:
        raise MissingSet(f"{rows} holds no dialog of {domain!r}. {where}")
    levels = (JudgedLevel("passage", passages), JudgedLevel("document", qrels(questions)[1], "document"))
    return EvalSet(f"mtrag-{domain}", corpus, tuple(judged.question for judged in questions), levels)


DOC2DIAL_SOURCE = (
    "Doc2Dial 1.0.1 (CC BY 3.0) is published at https://doc2dial.github.io; docs/lab/evaluation.md describes the files "
    "expected here."
)


def doc2dial(data: Path, parents: Mapping[str, Sequence[str]] | None = None) -> EvalSet:
    """The sections of the documents, and the grounded questions of the users with the text that answers them.

    `parents` maps the units of another corpus to the sections they lie in, which are then judged.
    """
    folder = present(data / "doc2dial", "Doc2Dial", DOC2DIAL_SOURCE)
    corpus = present(folder / "sections.jsonl", "Doc2Dial's sections", DOC2DIAL_SOURCE)
    questions = []
    for number, (_, row) in enumerate(
        json_rows(present(folder / "queries.jsonl", "Doc2Dial's questions", DOC2DIAL_SOURCE)), 1
    ):
        question = question_of_row(row, number).question
        questions.append(replace(question, answer=optional(row.get("metadata") or {}, "answer_span").strip()))
    sections = read_qrels(present(folder / "qrels.section.tsv", "Doc2Dial's judgements", DOC2DIAL_SOURCE))
    section = (
        JudgedLevel("section", sections) if parents is None else JudgedLevel("section", sections, "parents", parents)
    )
    levels = (section, JudgedLevel("document", read_qrels(folder / "qrels.document.tsv"), "document"))
    return EvalSet("doc2dial", corpus, tuple(questions), levels)


SETS: dict[str, Callable[[Path, str], EvalSet]] = {
    "doc2dial": lambda data, split: doc2dial(data),
    "mtrag-cloud": lambda data, split: mtrag(data, "cloud"),
    "mtrag-govt": lambda data, split: mtrag(data, "govt"),
    "synthetic": lambda data, split: written_dialogs(data / "synthetic", split),
    **{
        f"product-{product}": partial(product_pages, product=product)
        for product in ("uv", "mkdocs-material", "fastapi", "helm")
    },
}
"""Readers of a set in a folder of data sets, given the folder and the part of those that have several."""

FOLDERS: dict[str, Callable[[Path, str], EvalSet]] = {
    "beir": lambda folder, split: beir_folder(folder),
    "synth": lambda folder, split: written_dialogs(folder, split, folder.resolve().name),
}
"""Readers of a folder, which is named after a colon."""


def load_sets(names: Sequence[str], data: Path | None, every: int = 1, split: str = "dev") -> list[EvalSet]:
    """`load_set` for each; a name may be a pattern over `SETS`, such as `product-*`. Every `every`th question only."""
    matching = (match for name in names for match in (fnmatch.filter(SETS, name) or [name]))
    return [load_set(name, data, split).every(every) for name in dict.fromkeys(matching)]


def load_set(name: str, data: Path | None, split: str = "dev") -> EvalSet:
    """The set of that name below `data`, or in the folder after its colon; `split` where it has parts.

    `mtrag-` takes the name of any domain that is there, `product-` of any product. Raises MissingSet or BadRow.
    """
    kind, _, folder = name.partition(":")
    if folder and kind in FOLDERS:
        return FOLDERS[kind](Path(folder), split)
    if folder or not (name in SETS or name.startswith(("mtrag-", "product-"))):
        names = ", ".join((*SETS, *(f"{kind}:FOLDER" for kind in FOLDERS)))
        raise MissingSet(f"There is no set called {name!r}; known are {names}.")
    if data is None:
        raise MissingSet(f"The set {name} is looked for in a folder of data sets: give it with --data.")
    if name in SETS:
        return SETS[name](data, split)
    if name.startswith("product-"):
        return product_pages(data, split, name.removeprefix("product-"))
    return mtrag(data, name.removeprefix("mtrag-"))


def _read_qrels(path: Path) -> Qrels:
    try:
        return read_qrels(path)
    except ValueError as error:
        raise BadRow(str(error)) from None
