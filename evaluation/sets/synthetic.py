"""Sets of propositions and dialogs written over them: the shared synthetic ones, and what `anaphora synth` writes."""

from __future__ import annotations

from pathlib import Path

from evaluation.sets import dialogs
from evaluation.sets.base import EvalSet, JudgedLevel
from evaluation.sets.doc2dial import proposition_row
from evaluation.sets.rows import json_rows, present

WHERE = "`anaphora synth` writes such a folder from documents of yours; docs/lab/evaluation.md describes its files."


def shared(data: Path, split: str = "dev") -> EvalSet:
    """The written dialogs of the folder `synthetic`, one part of them."""
    return propositions(data / "synthetic", split)


def propositions(folder: Path, split: str = "dev", name: str = "synthetic") -> EvalSet:
    """All propositions of the folder; the questions of `dialogs.<split>.jsonl`, else of `dialogs.jsonl`."""
    corpus = present(folder / "propositions.jsonl", "A set of propositions", WHERE)
    path = folder / f"dialogs.{split}.jsonl"
    if not path.exists():
        path = present(folder / "dialogs.jsonl", f"A set of dialogs ({path.name}, or dialogs.jsonl)", WHERE)
    rows = tuple(proposition_row(row, where) for where, row in json_rows(corpus))
    found = list(dialogs.questions(path))
    units, documents = dialogs.qrels(found)
    levels = (JudgedLevel("proposition", units), JudgedLevel("document", documents, "document"))
    return EvalSet(name, "proposition", rows, tuple(one.question for one in found), levels)
