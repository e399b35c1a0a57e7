import math

import pytest

from index.clarity import TYPICAL, factor


def falling(drop: float, n: int = 10) -> list[float]:
    return [0.8 - drop * i / (n - 1) for i in range(n)]


def test_question_that_points_at_one_passage_weighs_more_than_a_vague_one():
    assert factor(falling(0.3), 10) > 1 > factor(falling(0.02), 10)


def test_typical_drop_changes_nothing():
    assert factor(falling(TYPICAL), 10) == pytest.approx(1)


def test_factor_is_bounded():
    assert factor(falling(0.8), 100) == pytest.approx(math.e**2)
    assert factor(falling(0.0), 100) == pytest.approx(math.e**-2)


def test_too_few_passages_or_no_strength_say_nothing():
    assert factor([0.9, 0.1], 10) == 1
    assert factor(falling(0.5), 0) == 1
