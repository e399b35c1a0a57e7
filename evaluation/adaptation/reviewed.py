"""Adapting from what people reviewed: conversations to learn from, others to judge by, and where answers stand now."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation.adaptation.questions import AnswerSpan, HeldOutQuestion
from evaluation.errors import EvaluationError
from evaluation.sets import dialogs
from evaluation.sets.quotes import document_id, spans
from text.files import write_text

if TYPE_CHECKING:
    from index.collection import Collection

REVIEWED = "reviewed.jsonl"
HELD_OUT = 0.5
"""The share of reviewed conversations that judges: with fewer than six or seven no difference is ever sure."""


def split(everything: Path, train: Path, held: Path, seed: int) -> None:
    """Share the conversations of a file out to two others. Raises EvaluationError for fewer than two."""
    lines = everything.read_text("utf-8").splitlines(keepends=True)
    if len(lines) < 2:
        raise EvaluationError(
            "Fewer than two conversations of this collection were reviewed: one learns, another judges. "
            "Review further turns on the workbench."
        )
    random.Random(seed).shuffle(lines)
    half = max(1, round(HELD_OUT * len(lines)))
    write_text(held, "".join(lines[:half]))
    write_text(train, "".join(lines[half:]))


def from_reviewed(path: Path, collection: Collection) -> Iterator[HeldOutQuestion]:
    """The questions of a file of reviewed conversations of which all is known, and whose answers still stand there."""
    known = {one.id for one in collection.documents()}
    for found in dialogs.questions(path):
        question, places = found.question, list[AnswerSpan]()
        for quote in found.quotes:
            if name := document_id(quote.document, known):
                places += [AnswerSpan(name, *at) for at in spans(collection.document(name).text, quote.text)[:1]]
        if question.rewrite and places:
            yield HeldOutQuestion(
                id=f"{question.dialog}#{question.id}",
                dialog=question.dialog,
                text=question.text,
                conversation=question.conversation,
                rewrite=question.rewrite,
                places=tuple(places),
            )
