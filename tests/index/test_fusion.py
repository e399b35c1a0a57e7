from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.ranking import fuse

RANKINGS = st.lists(st.tuples(st.floats(0.0, 3.0), st.lists(st.integers(0, 30), unique=True, max_size=20)), max_size=6)


def labelled(rankings: list[tuple[float, list[int]]]) -> list[tuple[str, float, list[int]]]:
    return [(f"ranking {number}", weight, ids) for number, (weight, ids) in enumerate(rankings)]


@given(RANKINGS, st.integers(1, 100))
def test_scores_are_the_weighted_sum_of_reciprocal_ranks(rankings: list[tuple[float, list[int]]], k: int) -> None:
    fused = fuse(labelled(rankings), k)
    for item in fused:
        expected = sum(weight / (k + ids.index(item.id) + 1) for weight, ids in rankings if item.id in ids)
        assert item.score == pytest.approx(expected)
    assert [item.score for item in fused] == sorted((item.score for item in fused), reverse=True)


@given(RANKINGS)
def test_every_item_of_a_weighted_ranking_appears_once_with_its_ranks(rankings: list[tuple[float, list[int]]]) -> None:
    fused = fuse(labelled(rankings))
    counted = {item for weight, ids in rankings if weight > 0 for item in ids}
    assert sorted(item.id for item in fused) == sorted(counted)
    for item in fused:
        assert item.ranks == {
            label: ids.index(item.id) + 1 for label, weight, ids in labelled(rankings) if weight > 0 and item.id in ids
        }


def test_equal_scores_keep_the_order_in_which_items_first_appear() -> None:
    fused = fuse([("a", 1.0, ["x", "y"]), ("b", 1.0, ["z", "x"])], k=60)
    assert [item.id for item in fused] == ["x", "z", "y"]
    assert [item.id for item in fuse([("a", 1.0, ["p"]), ("b", 1.0, ["q"])])] == ["p", "q"]


def test_weight_decides_between_rankings_that_disagree() -> None:
    assert fuse([("a", 1.0, ["x", "y"]), ("b", 2.0, ["y", "x"])])[0].id == "y"
    assert fuse([("a", 2.0, ["x", "y"]), ("b", 1.0, ["y", "x"])])[0].id == "x"
