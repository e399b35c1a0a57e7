"""Rows to train on from questions about papers: labelled one to four, or drawn by score with labels unopened."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from papers.cross_encoder.rows import read_rows
from papers.document_reading.__main__ import app
from papers.document_reading.evidence_rows import reranker_rows, training_papers
from papers.document_reading.qasper import Paper, PaperQuestion, ReaderAnswer
from rewriter.examples import read_examples
from tests.papers.test_document_reading import MADE, SOLD, write_set


def papers(question: Any = None) -> list[Paper]:
    answer = ReaderAnswer("made of steel", "extractive", frozenset({"1: kettles are made of steel"}))
    asked = question or PaperQuestion("1_0", "What are kettles made of?", (answer,))
    own = tuple(f"{n}: kettles are {'made of steel' if n == 1 else 'sold'}" for n in range(3))
    other = Paper("2", "Mills", tuple(f"{n}: mills" for n in range(9)), ())
    return [Paper("1", "Kettles", own, (asked,)), other]


@dataclass(frozen=True)
class Sealed:
    """A question whose evidence may not be looked at."""

    id: str = "1_0"
    text: str = "What are kettles made of?"
    answers: tuple[ReaderAnswer, ...] = ()

    @property
    def evidence(self) -> frozenset[str]:
        raise AssertionError("labels are not opened")


def test_sampled_rows_open_no_labels_and_follow_the_scores() -> None:
    seen = Counter(
        next(one.text[0] for one in row.passages if one.relevant)
        for seed in range(200)
        for row in reranker_rows(papers(Sealed()), sampled=True, seed=seed)
    )
    # The words of the question are all in one paragraph, and two of them, worth nothing, in all three.
    assert seen == {"1": 200}


def test_rows_are_written_without_the_papers_that_are_measured_on(tmp_path: Path) -> None:
    data = write_set(tmp_path)
    assert training_papers(data) == []
    sample = data / "qasper" / "full_annotation_sample10.jsonl"
    sample.write_text(sample.read_text("utf-8").replace('"Kettles"', '"Others"'), "utf-8")
    for flags, read in (((), read_rows), (("--reader",), read_examples), (("--reader", "--sampled"), read_examples)):
        out = tmp_path / "rows.jsonl"
        command = ["rows", str(out), "--data", str(data), *flags]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
        assert [one.question for one in read(out)] == ["Does steel rust?"] * (2 if flags == ("--reader",) else 1)
    row = json.loads(out.read_text("utf-8").splitlines()[0])
    assert row["history"][0]["text"] in (SOLD, MADE)
