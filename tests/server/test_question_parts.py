"""Taking questions apart without a model: its precision and recall on questions written for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from index.documents import Hit
from server.turn.decision import covered, split_question
from tests.server.turn_fakes import passage

ROWS = [
    json.loads(line) for line in (Path(__file__).parent / "compound_questions.jsonl").read_text("utf-8").splitlines()
]


def test_few_are_taken_apart_wrongly_and_most_that_should_be() -> None:
    """128 questions, 68 of them compound; every second was not looked at while the rules were written."""
    figures = {}
    for name, rows in (("seen", ROWS[::2]), ("unseen", ROWS[1::2])):
        apart = []
        for row in rows:
            hits = [Hit(passage(text, f"d{n}.md"), 1.0) for n, text in enumerate(row.get("passages", ()))]
            parts = split_question(row["question"])
            apart.append(bool(parts) and not covered(parts, hits))
        right = sum(one and row["compound"] for one, row in zip(apart, rows, strict=True))
        figures[name] = (right / sum(apart), right / sum(row["compound"] for row in rows))
    assert len(ROWS) == 128
    assert sum(row["compound"] for row in ROWS) == 68
    assert figures["seen"][0] >= 0.99
    assert figures["seen"][1] >= 0.88
    assert figures["unseen"][0] >= 0.95
    assert figures["unseen"][1] >= 0.58


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("How do I install uv and where does it store its cache?",
         ["How do I install uv?", "Where does it store its cache?"]),
        ("Difference between the lite and standard plan?", ["What is the lite?", "What is standard plan?"]),
        ("How does version 6.15.0 differ from 6.14.0?", ["What is version 6.15.0?", "What is 6.14.0?"]),
        ("How do I upgrade helm and roll back a release?", []),
        ("How do I search and replace text?", []),
        ("When was the Whitaker vs Trinidad fight?", []),
        ("", []),
        ("? and ?? and how", []),
    ],
)  # fmt: skip
def test_split_question_questions(question: str, parts: list[str]) -> None:
    assert [one.text for one in split_question(question)] == parts


def test_long_nonsense_is_read_quickly() -> None:
    for text in (
        "and how " * 2000,
        "difference between " * 1000 + "a and",
        "?" * 4000,
        "what is " + "a " * 2000 + "or",
    ):
        split_question(text[:4000])


def test_what_points_back_leans_on_the_part_before() -> None:
    first, second = split_question("What is a relay server and do I need one?")
    assert not first.leans
    assert second.leans


def test_what_is_told_behind_the_questions_keeps_them_together() -> None:
    asked = "How do I install it and where is the cache?"
    assert len(split_question(asked)) == 2
    assert not split_question(f"{asked} I am on Windows behind a proxy.")
    assert len(split_question(f"{asked} Thanks!")) == 2
