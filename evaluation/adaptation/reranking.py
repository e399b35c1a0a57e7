"""Adapting the cross-encoder: what it learns from comes from dialogs whose answers have a place in the documents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, cast

from evaluation.adaptation.questions import HeldOutQuestion
from evaluation.candidates import candidates
from evaluation.errors import EvaluationError
from evaluation.sets.base import EvalSet, JudgedLevel, Question
from rewriter.reranking.rows import read_rows, write_rows
from text.files import replacing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from index.collection import Collection
    from server.turn.search import TurnSearch


def write_candidates(
    path: Path, asked: Iterable[HeldOutQuestion], also: Sequence[Path], search: TurnSearch, name: str
) -> int:
    """Write rows to train a cross-encoder on: the questions with passages of the collection, and those of `also`.

    How many there are. Raises EvaluationError for none, ExampleError where a file of `also` holds no such rows.
    """
    # What is searched is a whole collection wherever something is adapted.
    collection = cast("Collection", search.collection(name))
    found = candidates(judged(asked, collection), collection, replace(search, reranker=None), search.reranker)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as draft:
        count = write_rows(draft, chain(found, chain.from_iterable(map(read_rows, also))))
    if not count:
        raise EvaluationError(
            "No question of the dialogs has an answer in the documents: there is nothing to train on."
        )
    return count


def judged(asked: Iterable[HeldOutQuestion], collection: Collection) -> EvalSet:
    """The questions as a set that is judged by passages and documents of the collection."""
    known = {one.id for one in collection.documents()}
    questions = list[Question]()
    passages: dict[str, dict[str, int]] = {}
    documents: dict[str, dict[str, int]] = {}
    for one in asked:
        questions.append(one)
        for place in one.places:
            if place.document_id in known:
                held = [
                    passage.id
                    for passage in collection.passages(place.document_id)
                    if place.start < passage.end and passage.start < place.end
                ]
                passages.setdefault(one.id, {}).update(dict.fromkeys(held, 1))
                documents.setdefault(one.id, {})[place.document_id] = 1
    levels = (JudgedLevel("passage", passages), JudgedLevel("document", documents, "document"))
    return EvalSet("dialogs", "passage", None, tuple(questions), levels)
