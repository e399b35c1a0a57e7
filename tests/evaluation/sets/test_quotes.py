"""Quotes become judgements over the passages that hold them."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.sets import load_set
from evaluation.sets.quotes import placed, relevant, spans
from index.collection import Collection
from index.indexer import index_paths
from index.query import Passage
from testing.encoder import WordEncoder
from tests.evaluation import evaluation_data as data


def passage(start: int, end: int) -> Passage:
    return Passage(f"{start}-{end}", "d", "", "x" * (end - start), start, end)


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ((10, 30), ["0-20", "20-40"]),
        ((12, 40), ["20-40"]),
        ((0, 40), ["0-20", "20-40"]),
        ((18, 20), ["0-20"]),
        ((15, 60), ["20-40"]),
        ((100, 120), []),
    ],
)
def test_a_passage_holds_half_a_quote_or_lies_half_within_it(at: tuple[int, int], expected: list[str]) -> None:
    assert relevant([passage(0, 20), passage(20, 40), passage(40, 90)], [at]) == expected


def test_a_quote_is_found_wherever_it_stands_and_by_its_words() -> None:
    assert spans("a.b? a.b?", "a.b?") == [(0, 4), (5, 9)]
    text = "See [the guide](x.md) and `uv sync`."
    assert [text[start:end] for start, end in spans(text, "*the guide* (x.md), and\nuv SYNC")] == [text[5:34]]
    assert spans(text, "the guide uv") == spans(text, "…") == []


def test_the_passages_of_a_collection_are_judged_by_the_quotes(tmp_path: Path) -> None:
    data.product(tmp_path)
    encoder, judged = WordEncoder(), {}
    for product in ("desk", "gate"):
        chosen = load_set(f"product-{product}", tmp_path)
        index_paths(tmp_path / "home", product, [chosen.corpus], encoder)
        collection = Collection.open(tmp_path / "home", product, encoder)
        found = placed(chosen, collection)
        passages, documents = found.levels
        texts = {one.id: one.text for info in collection.documents() for one in collection.passages(info.id)}
        judged |= {
            question: (texts[next(iter(names))], *documents.qrels[question])
            for question, names in passages.qrels.items()
        }
        collection.close()
    assert judged["d1#1"] == (data.LEAVE, "desk/leave.md"), "the folder of the product is not part of the id"
    assert judged["d1#3"] == (data.FORM, "desk/leave.md")
    assert "lost badge" in judged["d2#1"][0]
    assert judged["d2#1"][1] == "badge.rst"
