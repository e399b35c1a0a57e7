"""`anaphora eval qasper`: both forms of the set, metrics counted by hand, every ranking and chooser on small papers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluation.run_folder import create_run, read_run
from index.rerank import CrossEncoderReranker, Scores
from papers.document_reading.measuring import (
    answer_f1,
    evidence_f1,
    measure_answers,
    measure_retrieval,
    rank_all,
    read_all,
    recall,
)
from papers.document_reading.qasper import ReaderAnswer, load_papers
from server.settings import Settings
from tests.encoder import WordEncoder

SOLD = "Kettles are sold in two sizes."
MADE = "The kettles are made of steel. Steel does not rust."
PRICE = "A kettle costs twenty euros."


def answer(evidence: list[str], **said: Any) -> dict[str, Any]:
    empty = {"unanswerable": False, "extractive_spans": [], "yes_no": None, "free_form_answer": ""}
    return {"answer": [empty | {"evidence": evidence} | said]}


def write_set(folder: Path) -> Path:
    (folder / "qasper").mkdir(parents=True)
    paper = {
        "id": "p1",
        "title": "Kettles",
        "abstract": "On kettles.",
        "full_text": {"section_name": ["Intro", "More"], "paragraphs": [[SOLD, " "], [MADE, PRICE]]},
        "qas": {
            "question_id": ["q1", "q2", "q3"],
            "question": ["What are kettles made of?", "Does steel rust?", "Who sells teapots?"],
            "answers": [
                answer([MADE, "FLOAT SELECTED: Table 1"], extractive_spans=["made of steel"]),
                answer([MADE], yes_no=False),
                answer([], unanswerable=True),
            ],
        },
    }
    (folder / "qasper" / "full_annotation_sample10.jsonl").write_text(json.dumps(paper) + "\n", "utf-8")
    corpus = [
        {"_id": f"0::p{n}", "title": "Kettles", "text": text, "metadata": {"doc_id": "0"}}
        for n, text in enumerate((SOLD, MADE, PRICE))
    ]
    query = {"_id": "0_0", "text": "Does steel rust?", "metadata": {"doc_id": "0", "relevant": ["0::p1"]}}
    query["metadata"]["answers"] = [["steel"], "It does not.", False]  # type: ignore[index]
    for name, rows in (("train_evidence_corpus", corpus), ("train_queries", [query])):
        (folder / "qasper" / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return folder


class Words:
    """A cross-encoder that counts the words both sides share, and wants two of them."""

    shows_states = False

    def cut(self, text: str, tokens: int) -> tuple[str, int]:
        return text, len(text.split())

    def score(self, question: str, passages: Sequence[str]) -> tuple[Scores, list[Any], list[Scores]]:
        asked = set(question.lower().strip("?").split())
        return np.array([len(asked & set(one.lower().split())) - 1.5 for one in passages], dtype=np.float32), [], []


def test_metrics_equal_cases_counted_by_hand() -> None:
    ranked = [str(n) for n in range(150)]
    # Of 150 paragraphs 1 % are two, 5 % are eight.
    assert [recall(ranked, {"1", "2", "7"}, share) for share in (1, 5)] == pytest.approx([1 / 3, 1])
    assert recall(["a", "b"], {"b"}, 1) == 0, "one paragraph at least is looked at"
    several = [ReaderAnswer("", "extractive", frozenset("ab")), ReaderAnswer("", "extractive", frozenset("c"))]
    assert evidence_f1({"a", "c", "d"}, several[:1]) == pytest.approx(2 / 5)
    assert evidence_f1({"c"}, several) == 1, "the reader that agrees most"
    nothing = [ReaderAnswer("Unanswerable", "unanswerable", frozenset())]
    assert (evidence_f1((), nothing), evidence_f1({"a"}, nothing), evidence_f1((), several)) == (1, 0, 0)
    readers = [
        ReaderAnswer("Yes", "boolean", frozenset()),
        ReaderAnswer("the BLEU, and METEOR", "extractive", frozenset()),
    ]
    assert answer_f1("yes.", readers) == (1, "boolean")
    # Three words and three: bleu and meteor are shared, articles and punctuation are nothing.
    assert answer_f1("BLEU or meteor", readers) == (pytest.approx(4 / 6), "extractive")
    assert answer_f1("", nothing) == (1, "unanswerable")
    assert answer_f1("", readers) == (0, "boolean"), "the first of equals"


def test_every_ranking_and_chooser_is_measured(tmp_path: Path) -> None:
    papers = load_papers(write_set(tmp_path))
    ranked = rank_all(papers, WordEncoder(), CrossEncoderReranker("words", Words()), lambda *_: None)
    assert all(sorted(places) == [0, 1, 2] for one in ranked for places in one.places.values())
    writer = create_run(tmp_path / "runs", "qasper", "x")
    measure_retrieval(ranked, writer)
    read = asyncio.run(read_all(ranked, ["bm25", "reranked"], None, 2, lambda *_: None))
    measure_answers(ranked, read, [2], writer)
    writer.finish(Settings(home=tmp_path))
    run = read_run(writer.folder)
    figures = {(one.system, one.measure): (one.mean, one.n) for one in run.metrics}
    assert figures["reranked", "R@5%"] == (1, 2), "what has no evidence is not judged by it"
    assert figures["cross-encoder >= 0.5", "Evidence-F1"] == (pytest.approx(8 / 9), 3), "one too many"
    assert figures["reranked, first", "boolean"] == (1, 1), "a sentence that denies answers no"
    assert figures["bm25, as in chat of 2", "boolean"] == (1, 1), "what is quoted answers, too"
    assert figures["bm25, oracle of 2", "Answer-F1"][0] >= figures["bm25, chosen of 2", "Answer-F1"][0]
    assert {one.baseline for one in run.tests} == {"bm25", "bm25, first", "reranked, first"}
