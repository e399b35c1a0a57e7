"""Dialog rows, as in MTRAG, in the synthetic sets and in what `anaphora synth` writes, as questions.

A row is `{"dialog_id", "turns": [{"role", "text", "rewrite", "relevant", "documents", …}]}`. The answer to a
question is what the assistant says next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.errors import BadRow
from evaluation.sets.base import Question
from evaluation.sets.rows import conversation, json_rows, names, optional, text
from rewriter.conversation import Conversation


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """A question with the ids of the units and documents that answer it."""

    question: Question
    relevant: tuple[str, ...]
    documents: tuple[str, ...]


def questions(path: Path, where: dict[str, str] | None = None) -> Iterator[JudgedQuestion]:
    """Every question of the dialogs in `path`, or of those whose fields equal `where`. Raises BadRow."""
    for place, row in json_rows(path):
        if all(row.get(key) == value for key, value in (where or {}).items()):
            yield from _of_dialog(row, place)


def qrels(found: list[JudgedQuestion]) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]]:
    """The judgements over units and over documents."""
    units = {one.question.id: dict.fromkeys(one.relevant, 1) for one in found if one.relevant}
    documents = {one.question.id: dict.fromkeys(one.documents, 1) for one in found if one.documents}
    return units, documents


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
                answer=answer,
                answerability=optional(raw, "answerability").lower(),
            ),
            tuple(names(raw, "relevant", at)),
            tuple(names(raw, "documents", at)),
        )
