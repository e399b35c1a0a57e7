"""Data sets by name: questions in their conversations, a corpus, and what is relevant.

`SETS` reads sets from a folder of data sets, `FOLDERS` a folder that is named after a colon.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from evaluation.metrics import Qrels
from evaluation.questions import (
    BadRow,
    MissingSet,
    dialog_questions,
    json_rows,
    optional,
    present,
    qrels,
    question_of_row,
    text,
)
from evaluation.sets import EvalSet, JudgedLevel, judged_set, own_questions

Row: TypeAlias = Mapping[str, object]
"""A row of `corpus.jsonl`: `_id`, `title`, `text`, `metadata`."""

Corpus: TypeAlias = Path | tuple[Row, ...] | None


@dataclass(frozen=True, slots=True)
class DataSet(EvalSet):
    """A set with what is searched.

    `corpus` is a BEIR `corpus.jsonl`, a folder of documents, rows, or None where an indexed collection of the operator
    is searched. Sets of one `pool` are also measured together, by this name.
    """

    corpus: Corpus = None
    pool: str = ""


def data_set(chosen: EvalSet, corpus: Corpus = None, pool: str = "") -> DataSet:
    """The set with a corpus."""
    return DataSet(chosen.name, chosen.questions, chosen.levels, chosen.quotes, corpus, pool)


def questions_of(path: Path) -> DataSet:
    """Questions of a file about an indexed collection. Raises BadRow or MissingSet."""
    return data_set(own_questions(path))


_QRELS = ("qrels.tsv", "qrels/dev.tsv", "qrels/test.tsv", "qrels/validation.tsv")


def beir_folder(path: Path) -> DataSet:
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
    return DataSet(path.resolve().name, questions, tuple(levels), corpus=corpus)


PRODUCT_SOURCE = "`docs/lab/evaluation.md` describes the files: you can write such dialogs over pages of your own."


def product_pages(data: Path, split: str, product: str) -> DataSet:
    """The pages of a product as they are, and the questions of one part of the dialogs about it, judged by quotes."""
    rows = present(
        data / "product_dialogs" / f"dialogs.{split}.jsonl", "Dialogs over product documentation", PRODUCT_SOURCE
    )
    corpus = present(data / "product_docs" / product, f"The documentation of {product}", PRODUCT_SOURCE)
    questions = list(dialog_questions(rows, {"product": product}))
    if not questions:
        raise MissingSet(f"{rows} holds no dialog about {product!r}.")
    return data_set(replace(judged_set(f"product-{product}", questions), levels=()), corpus, "product")


def written_dialogs(folder: Path, split: str = "dev", name: str = "synthetic") -> DataSet:
    """The propositions of a folder of `anaphora synth`; the questions of `dialogs.<split>.jsonl` or `dialogs.jsonl`."""
    where = "`anaphora synth` writes such a folder from documents of yours; docs/lab/evaluation.md describes its files."
    corpus = present(folder / "propositions.jsonl", "A set of propositions", where)
    path = folder / f"dialogs.{split}.jsonl"
    if not path.exists():
        path = present(folder / "dialogs.jsonl", f"A set of dialogs ({path.name}, or dialogs.jsonl)", where)
    rows = tuple(proposition_row(row, where) for where, row in json_rows(corpus))
    return data_set(judged_set(name, dialog_questions(path), "proposition"), rows)


def proposition_row(row: Mapping[str, Any], where: str) -> Row:
    """A proposition as a row of a corpus, one passage a proposition."""
    return {
        "_id": text(row, "_id", where),
        "title": optional(row, "title"),
        "text": text(row, "text", where),
        "metadata": {"doc_id": text(row, "document_id", where)},
    }


def mtrag(data: Path, domain: str) -> DataSet:
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
    return DataSet(f"mtrag-{domain}", tuple(judged.question for judged in questions), levels, corpus=corpus)


DOC2DIAL_SOURCE = (
    "Doc2Dial 1.0.1 (CC BY 3.0) is published at https://doc2dial.github.io; docs/lab/evaluation.md describes the files "
    "expected here."
)


def doc2dial(data: Path, parents: Mapping[str, Sequence[str]] | None = None) -> DataSet:
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
    return DataSet("doc2dial", tuple(questions), levels, corpus=corpus)


SETS: dict[str, Callable[[Path, str], DataSet]] = {
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

FOLDERS: dict[str, Callable[[Path, str], DataSet]] = {
    "beir": lambda folder, split: beir_folder(folder),
    "synth": lambda folder, split: written_dialogs(folder, split, folder.resolve().name),
}
"""Readers of a folder, which is named after a colon."""


def load_sets(names: Sequence[str], data: Path | None, every: int = 1, split: str = "dev") -> list[DataSet]:
    """`load_set` for each; a name may be a pattern over `SETS`, such as `product-*`. Every `every`th question only."""
    matching = (match for name in names for match in (fnmatch.filter(SETS, name) or [name]))
    return [load_set(name, data, split).every(every) for name in dict.fromkeys(matching)]


def load_set(name: str, data: Path | None, split: str = "dev") -> DataSet:
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


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Judgements from BEIR's TSV (`query-id corpus-id score`, with a heading line) or TREC's four columns.

    Raises ValueError naming the line that is neither.
    """
    qrels: dict[str, dict[str, int]] = {}
    for number, line in enumerate(path.read_text("utf-8").split("\n"), start=1):
        if not line.strip():
            continue
        line = line.rstrip("\r")
        fields = line.split("\t") if "\t" in line else line.split()
        if number == 1 and fields[-1] == "score":
            continue
        try:
            question, item, relevance = (fields[0], fields[-2], int(fields[-1]))
        except (IndexError, ValueError):
            raise ValueError(f"{path}, line {number}: expected question, id and relevance, found {line!r}") from None
        qrels.setdefault(question, {})[item] = relevance
    return qrels


def _read_qrels(path: Path) -> Qrels:
    try:
        return read_qrels(path)
    except ValueError as error:
        raise BadRow(str(error)) from None
