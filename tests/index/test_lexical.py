from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from rank_bm25 import BM25Okapi

from index.errors import CollectionCorrupt
from index.ranking import K1, B, Bm25s
from text.words import tokenize

NOUNS = ["form", "fax", "office", "claim", "licence", "vehicle", "loan", "income", "payment", "address", "court"]
VERBS = ["send", "renew", "repay", "print", "cancel", "apply", "move", "refund", "report", "change"]


@pytest.fixture(scope="module")
def corpus() -> list[list[str]]:
    """Three hundred passages in which every word is in well under half of them."""
    choose = random.Random(7)
    rare = [f"item{number}" for number in range(60)]
    return [
        tokenize(
            " ".join(choose.sample(NOUNS, 3) + choose.sample(VERBS, 2) + choose.choices(rare, k=choose.randint(1, 9)))
        )
        for _ in range(300)
    ]


QUERIES = ["how do I renew my licence", "fax number", "item7 item8 refund", "student loan income", "repay repay court"]


@pytest.mark.parametrize("query", QUERIES)
def test_passages_rank_as_rank_bm25_scores(corpus: list[list[str]], query: str) -> None:
    oracle = BM25Okapi(corpus, k1=K1, b=B)
    # rank-bm25 knows Okapi's IDF only; how terms are weighted and summed is all its own.
    oracle.idf = {
        word: np.log(1 + (len(corpus) - count + 0.5) / (count + 0.5))
        for word, count in ((word, sum(word in passage for passage in corpus)) for word in oracle.idf)
    }
    scores = oracle.get_scores(tokenize(query))
    expected = sorted(np.flatnonzero(scores > 0).tolist(), key=lambda row: (-round(scores[row], 4), row))
    fast = Bm25s.build(corpus).search(query, 400)
    assert [round(scores[row], 4) for row in fast] == [round(scores[row], 4) for row in expected]
    assert set(fast) == set(expected)


@pytest.fixture
def index() -> Bm25s:
    passages = ["red apple", "green apple apple", "blue sky", "", "apple"]
    return Bm25s.build([tokenize(passage) for passage in passages])


def test_passages_without_a_common_word_are_not_found(index: Bm25s) -> None:
    assert index.search("submarine", 3) == []
    assert index.search("", 3) == index.search("the", 3) == []
    assert index.search("sky", 5) == [2]


def test_asking_for_more_than_there_is_answers_what_there_is(index: Bm25s) -> None:
    assert sorted(index.search("apple", 100)) == [0, 1, 4]
    assert len(index.search("apple", 2)) == 2
    assert index.search("apple", 0) == []


def test_a_mask_hides_passages(index: Bm25s) -> None:
    mask = np.array([True, False, True, True, False])
    assert index.search("apple", 5, mask) == [0]
    assert index.search("apple", 5, np.zeros(5, dtype=np.bool_)) == []


def test_ties_are_in_order_of_rows() -> None:
    engine = Bm25s.build([tokenize("equal passages")] * 50)
    assert engine.search("equal passages", 10) == list(range(10))


def test_a_saved_index_answers_as_before(corpus: list[list[str]], tmp_path: Path) -> None:
    built = Bm25s.build(corpus)
    built.save(tmp_path / "lexical")
    loaded = Bm25s.load(tmp_path / "lexical")
    for query in QUERIES:
        assert loaded.search(query, 50) == built.search(query, 50)


def test_a_damaged_index_is_named(tmp_path: Path) -> None:
    (tmp_path / "params.index.json").write_text("{}", "utf-8")
    with pytest.raises(CollectionCorrupt, match="index again"):
        Bm25s.load(tmp_path)
