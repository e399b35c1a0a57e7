"""Questions about papers, with the paragraphs that answer them and what several readers answered.

`sample` are whole papers as Qasper publishes them (`qasper/full_annotation*.jsonl`): only there is a recall of a share
of the paper worth anything. `train` are questions with their evidence paragraphs alone (`train_queries.jsonl`,
`train_evidence_corpus.jsonl`), which have nothing to be told from but the evidence of the paper's other questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from evaluation.questions import BadRow, MissingSet, json_rows, names, optional, present, text

SET = "qasper"
SPLITS = ("sample", "train")

GoldKind: TypeAlias = Literal["extractive", "abstractive", "boolean", "unanswerable"]

_PUBLISHED = "It is published as Qasper."
_FLOAT = "FLOAT SELECTED"
"""Begins evidence that is a figure's or a table's, which a paper's text does not hold."""


@dataclass(frozen=True, slots=True)
class ReaderAnswer:
    """What one reader answered. `evidence` are paragraphs of the paper, word for word."""

    text: str
    kind: GoldKind
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True)
class PaperQuestion:
    """A question, and all its readers' answers."""

    id: str
    text: str
    answers: tuple[ReaderAnswer, ...]

    @property
    def evidence(self) -> frozenset[str]:
        """The paragraphs of all readers together."""
        return frozenset[str]().union(*(one.evidence for one in self.answers))


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper's paragraphs in their order, without its abstract, and what was asked about it."""

    id: str
    title: str
    paragraphs: tuple[str, ...]
    questions: tuple[PaperQuestion, ...]


def load_papers(data: Path, split: str = "sample") -> list[Paper]:
    """The papers of a split, in their order. Raises MissingSet, BadRow."""
    if split not in SPLITS:
        raise MissingSet(f"qasper has no part {split!r}; it has {' and '.join(SPLITS)}.")
    return list(_whole(data / SET) if split == "sample" else _evidence_only(data / SET))


def _whole(folder: Path) -> Iterator[Paper]:
    files = sorted(folder.glob("full_annotation*.jsonl"))
    present(files[0] if files else folder / "full_annotation_sample10.jsonl", "The set qasper", _PUBLISHED)
    for file in files:
        for where, row in json_rows(file):
            try:
                paragraphs = tuple(one for section in row["full_text"]["paragraphs"] for one in section if one.strip())
                questions = tuple(_asked(row["qas"], set(paragraphs)))
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                raise BadRow(f"{where} is no annotated paper ({error!r}).") from None
            yield Paper(text(row, "id", where), optional(row, "title"), paragraphs, questions)


def _asked(asked: Mapping[str, Any], paragraphs: set[str]) -> Iterator[PaperQuestion]:
    for name, question, given in zip(asked["question_id"], asked["question"], asked["answers"], strict=True):
        answers = []
        for one in given["answer"]:
            evidence = frozenset(line for line in one["evidence"] if not line.startswith(_FLOAT))
            answers.append(ReaderAnswer(*_said(one), evidence & paragraphs))
        yield PaperQuestion(name, question, tuple(answers))


def _said(answer: Mapping[str, Any]) -> tuple[str, GoldKind]:
    """In the order in which the published evaluation looks."""
    if answer["unanswerable"]:
        return "Unanswerable", "unanswerable"
    if answer["extractive_spans"]:
        return ", ".join(answer["extractive_spans"]), "extractive"
    if answer["free_form_answer"]:
        return str(answer["free_form_answer"]), "abstractive"
    if isinstance(answer["yes_no"], bool):
        return _yes_no(answer["yes_no"]), "boolean"
    raise ValueError("an answer that says nothing")


def _yes_no(value: bool) -> str:
    return "Yes" if value else "No"


def _evidence_only(folder: Path) -> Iterator[Paper]:
    paragraphs: dict[str, dict[str, str]] = {}
    titles: dict[str, str] = {}
    corpus = present(folder / "train_evidence_corpus.jsonl", "The training part of qasper", _PUBLISHED)
    queries = present(folder / "train_queries.jsonl", "The training part of qasper", _PUBLISHED)
    for where, row in json_rows(corpus):
        paper = _paper(row, where)
        paragraphs.setdefault(paper, {})[text(row, "_id", where)] = text(row, "text", where)
        titles.setdefault(paper, optional(row, "title"))
    asked: dict[str, list[PaperQuestion]] = {}
    for where, row in json_rows(queries):
        paper, metadata = _paper(row, where), row["metadata"]
        held = paragraphs.get(paper, {})
        evidence = frozenset(held[name] for name in names(metadata, "relevant", where) if name in held)
        answers = tuple(ReaderAnswer(*_listed(one), evidence) for one in metadata.get("answers") or ())
        question = PaperQuestion(text(row, "_id", where), text(row, "text", where), answers)
        asked.setdefault(paper, []).append(question)
    for paper, questions in asked.items():
        yield Paper(paper, titles.get(paper, ""), tuple(paragraphs.get(paper, {}).values()), tuple(questions))


def _paper(row: Mapping[str, Any], where: str) -> str:
    metadata = row.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("doc_id"), str):
        raise BadRow(f"{where} does not say which paper it is of.")
    return str(metadata["doc_id"])


def _listed(answer: object) -> tuple[str, GoldKind]:
    """By its form: a list is extractive, a text abstractive, a truth value yes or no."""
    if isinstance(answer, bool):
        return _yes_no(answer), "boolean"
    if isinstance(answer, list):
        return ", ".join(map(str, answer)), "extractive"
    return str(answer), "abstractive"
