"""Dialog rows, as in MTRAG, in the synthetic sets, in what `anaphora synth` writes and people write, as questions.

A row is `{"dialog_id", "turns": [{"role", "text", "rewrite", "relevant", "documents", "evidence", …}]}`. The answer to
a question is its `answer`, else what the assistant says next. The answer is named by ids or quoted
(`evaluation.sets.quotes`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.errors import BadRow
from evaluation.sets.base import EvalSet, Question, Quote, conversation, json_rows, names, optional, text
from rewriter.protocol import Conversation


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """A question with the ids of the units and documents that answer it, and the quotes that do."""

    question: Question
    relevant: tuple[str, ...]
    documents: tuple[str, ...]
    quotes: tuple[Quote, ...] = ()


def questions(path: Path, where: dict[str, str] | None = None) -> Iterator[JudgedQuestion]:
    """Every question of the dialogs in `path`, or of those whose fields equal `where`. Raises BadRow."""
    for place, row in json_rows(path):
        if all(row.get(key) == value for key, value in (where or {}).items()):
            yield from _of_dialog(row, place)


def qrels(questions: list[JudgedQuestion]) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]]:
    """The judgements over units and over documents."""
    units = {question.question.id: dict.fromkeys(question.relevant, 1) for question in questions if question.relevant}
    documents = {
        question.question.id: dict.fromkeys(question.documents, 1) for question in questions if question.documents
    }
    return units, documents


def quoted(name: str, corpus: Path | None, questions: list[JudgedQuestion], pool: str = "") -> EvalSet:
    """Questions judged by their quotes alone."""
    quotes = {question.question.id: question.quotes for question in questions if question.quotes}
    return EvalSet(name, "passage", corpus, tuple(question.question for question in questions), (), quotes, pool)


def _of_dialog(row: dict[str, Any], place: str) -> Iterator[JudgedQuestion]:
    turns = row.get("turns")
    if not isinstance(turns, list):
        raise BadRow(f'{place} has no "turns".')
    dialog = optional(row, "dialog_id") or optional(row, "id") or place
    whole = conversation(turns, place)
    for n, raw in enumerate(turns):
        if whole.messages[n].role != "user":
            continue
        at = f"{place}, turn {n + 1}"
        following = whole.messages[n + 1 :]
        answer = following[0].text if following and following[0].role == "assistant" else ""
        yield JudgedQuestion(
            Question(
                id=(optional(raw, "turn_id") or f"{dialog}#{n + 1}").replace(" ", "_"),
                dialog=dialog,
                text=text(raw, "text", at),
                conversation=Conversation(whole.messages[:n]),
                rewrite=optional(raw, "rewrite"),
                domain=optional(row, "domain") or optional(row, "collection"),
                answer=optional(raw, "answer") or answer,
                answerability=optional(raw, "answerability").lower(),
                kind=optional(raw, "kind").lower(),
            ),
            tuple(names(raw, "relevant", at)),
            tuple(names(raw, "documents", at)),
            tuple(_quotes(raw, at)),
        )


def _quotes(turn: dict[str, Any], at: str) -> Iterator[Quote]:
    evidence = turn.get("evidence") or []
    if not isinstance(evidence, list) or not all(isinstance(entry, dict) for entry in evidence):
        raise BadRow(f'{at}: "evidence" is not a list of objects with "document" and "quote".')
    for n, entry in enumerate(evidence, 1):
        yield Quote(text(entry, "document", f"{at}, evidence {n}"), text(entry, "quote", f"{at}, evidence {n}"))
