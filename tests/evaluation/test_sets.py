"""Questions of one's own: what they judge, and the passages that their quotes stand in."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.questions import relevant, spans
from evaluation.sets import own_questions
from index.documents import Passage
from tests.evaluation import evaluation_data as data


def test_own_questions_may_be_judged_by_document_only(tmp_path: Path) -> None:
    path = data.jsonl(tmp_path / "mine.jsonl", [{"id": "1", "text": "fax?", "documents": ["leave.md"]}])
    found = own_questions(path)
    assert [level.name for level in found.levels] == ["document"]


def passage(start: int, end: int) -> Passage:
    return Passage(f"{start}-{end}", "d", "", "x" * (end - start), start, end)


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ((10, 30), ["0-20", "20-40"]), ((12, 40), ["20-40"]), ((0, 40), ["0-20", "20-40"]), ((18, 20), ["0-20"]),
        ((15, 60), ["20-40"]), ((100, 120), []),
    ],
)  # fmt: skip
def test_a_passage_holds_half_a_quote_or_lies_half_within_it(at: tuple[int, int], expected: list[str]) -> None:
    assert relevant([passage(0, 20), passage(20, 40), passage(40, 90)], [at]) == expected


def test_a_quote_is_found_wherever_it_stands_and_by_its_words() -> None:
    assert spans("a.b? a.b?", "a.b?") == [(0, 4), (5, 9)]
    text = "See [the guide](x.md) and `uv sync`."
    assert [text[start:end] for start, end in spans(text, "*the guide* (x.md), and\nuv SYNC")] == [text[5:34]]
    assert spans(text, "the guide uv") == spans(text, "…") == []
