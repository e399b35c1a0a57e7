"""MTRAG: human conversations with retrieval systems, one corpus a domain."""

from __future__ import annotations

from pathlib import Path

from evaluation.errors import MissingSet
from evaluation.metrics.ranking import read_qrels
from evaluation.sets import dialogs
from evaluation.sets.base import EvalSet, JudgedLevel
from evaluation.sets.rows import present

WHERE = (
    "MTRAG (Apache-2.0) is published at https://github.com/IBM/mt-rag-benchmark; docs/lab/evaluation.md describes the "
    "files expected here."
)


def passages(data: Path, domain: str) -> EvalSet:
    """The passages of one domain (`cloud`, `govt`, …). Questions nobody could answer are in, unjudged."""
    folder = present(data / "mtrag", "MTRAG", WHERE)
    corpus = present(folder / domain / "corpus.jsonl", f"MTRAG's corpus of {domain}", WHERE)
    judged = read_qrels(present(folder / domain / "qrels.tsv", f"MTRAG's judgements of {domain}", WHERE))
    rows = present(folder / "dialogs.jsonl", "MTRAG's dialogs", WHERE)
    found = list(dialogs.questions(rows, {"collection": domain}))
    if not found:
        raise MissingSet(f"{rows} holds no dialog of {domain!r}. {WHERE}")
    _, documents = dialogs.qrels(found)
    levels = (JudgedLevel("passage", judged), JudgedLevel("document", documents, "document"))
    return EvalSet(f"mtrag-{domain}", "passage", corpus, tuple(one.question for one in found), levels)
