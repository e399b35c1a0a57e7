import math

import pytest

from index.documents import in_scope
from index.ranking import TYPICAL_DROP, query_confidence


def falling(drop: float, n: int = 10) -> list[float]:
    return [0.8 - drop * i / (n - 1) for i in range(n)]


def test_question_that_points_at_one_passage_weighs_more_than_a_vague_one():
    assert query_confidence(falling(0.3), 10) > 1 > query_confidence(falling(0.02), 10)


def test_typical_drop_changes_nothing():
    assert query_confidence(falling(TYPICAL_DROP), 10) == pytest.approx(1)


def test_factor_is_bounded():
    assert query_confidence(falling(0.8), 100) == pytest.approx(math.e**2)
    assert query_confidence(falling(0.0), 100) == pytest.approx(math.e**-2)


def test_too_few_passages_or_no_strength_say_nothing():
    assert query_confidence([0.9, 0.1], 10) == 1
    assert query_confidence(falling(0.5), 0) == 1


def test_a_filter_takes_nothing_but_what_it_names() -> None:
    assert in_scope({}, {})
    assert in_scope({"version": ["1", "2"]}, {"version": "2", "language": "en"})
    assert not in_scope({"version": ["1", "2"]}, {"version": ["2", "3"]})
    assert not in_scope({"version": "1"}, {})
