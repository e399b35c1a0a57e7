"""Any folder in BEIR form, and questions an operator wrote about a collection of their own."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from evaluation.errors import BadRow, MissingSet
from evaluation.metrics.ranking import Qrels, read_qrels
from evaluation.sets import dialogs
from evaluation.sets.base import EvalSet, JudgedLevel, Question, conversation, json_rows, names, optional, present, text

SHAPE = (
    '{"id": "q1", "text": "…", "history": [{"role": "user", "text": "…"}], "rewrite": "…", "relevant": ["passage id"], '
    '"documents": ["document id"], "answer": "…"}'
)
_QRELS = ("qrels.tsv", "qrels/dev.tsv", "qrels/test.tsv", "qrels/validation.tsv")


def folder(path: Path) -> EvalSet:
    """`corpus.jsonl`, `queries.jsonl` and `qrels.tsv` (or `qrels/dev.tsv`, `qrels/test.tsv`).

    Where rows of the corpus say which document they belong to (`metadata.doc_id`), documents are judged too: one
    with a relevant passage is relevant. Raises MissingSet or BadRow.
    """
    where = "A folder in BEIR form holds corpus.jsonl, queries.jsonl and qrels.tsv."
    corpus = present(path / "corpus.jsonl", "A corpus", where)
    queries = present(path / "queries.jsonl", "A file of questions", where)
    judged = next((path / name for name in _QRELS if (path / name).is_file()), None)
    if judged is None:
        raise MissingSet(f"{path} has no judgements: none of {', '.join(_QRELS)} exists. {where}")
    qrels = _read(judged)
    document_of = {
        str(row.get("_id")): str(row["metadata"]["doc_id"])
        for _, row in json_rows(corpus)
        if isinstance(row.get("metadata"), dict) and row["metadata"].get("doc_id")
    }
    levels = [JudgedLevel("passage", qrels)]
    if document_of:
        documents: dict[str, dict[str, int]] = {}
        for question, relevant in qrels.items():
            for item, relevance in relevant.items():
                if item in document_of and relevance > 0:
                    documents.setdefault(question, {})[document_of[item]] = 1
        levels.append(JudgedLevel("document", documents, "document"))
    questions = tuple(_question(row, at) for at, row in json_rows(queries))
    return EvalSet(path.resolve().name, "passage", corpus, questions, tuple(levels))


def own_questions(path: Path) -> EvalSet:
    """Questions about an indexed collection, one JSON object a line, with the ids that answer them.

    Judged by passage where a line has `relevant`, by document where it has `documents`. A file of dialogs that quote
    their evidence is read as well, and judged by the quotes.
    """
    present(path, "A file of questions", f"A line looks like {SHAPE}.")
    if any("turns" in row for _, row in islice(json_rows(path), 1)):
        return dialogs.quoted(path.stem, None, list(dialogs.questions(path)))
    questions: list[Question] = []
    passages: dict[str, dict[str, int]] = {}
    documents: dict[str, dict[str, int]] = {}
    for where, row in json_rows(path):
        question = _question(row, where)
        if (
            any(question.id == other.id for other in questions[-1:])
            or question.id in passages
            or question.id in documents
        ):
            raise BadRow(f"{where}: the id {question.id!r} was used before.")
        questions.append(question)
        if relevant := names(row, "relevant", where):
            passages[question.id] = dict.fromkeys(relevant, 1)
        if relevant := names(row, "documents", where):
            documents[question.id] = dict.fromkeys(relevant, 1)
    levels = []
    if passages:
        levels.append(JudgedLevel("passage", passages))
    if documents:
        levels.append(JudgedLevel("document", documents, "document"))
    return EvalSet(path.stem, "passage", None, tuple(questions), tuple(levels))


def _question(row: dict[str, Any], where: str) -> Question:
    metadata = row.get("metadata")
    more: dict[str, Any] = {**(metadata if isinstance(metadata, dict) else {}), **row}
    name = str(row.get("_id") or row.get("id") or "")
    if not name or name.split() != [name]:
        raise BadRow(f'{where} needs an "id" without white space.')
    return Question(
        id=name,
        dialog=optional(more, "dialog_id") or name,
        text=text(row, "text", where),
        conversation=conversation(more.get("history") or [], where),
        rewrite=optional(more, "rewrite"),
        domain=optional(more, "domain"),
        answer=optional(more, "answer"),
        answerability=optional(more, "answerability").lower(),
    )


def _read(path: Path) -> Qrels:
    try:
        return read_qrels(path)
    except ValueError as error:
        raise BadRow(str(error)) from None
