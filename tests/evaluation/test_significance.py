from __future__ import annotations

import numpy as np
import pytest

from evaluation.metrics import estimate, holm, randomisation


def test_an_interval_holds_the_mean_and_shrinks_with_more_questions() -> None:
    random = np.random.default_rng(1)
    few, many = random.random(30).tolist(), random.random(3000).tolist()
    small, large = estimate(few, range(30)), estimate(many, range(3000))
    assert small.low < small.mean < small.high
    assert large.high - large.low < (small.high - small.low) / 5
    # The percentile interval of a mean is about ± 1.96 standard errors.
    error = np.std(many) / np.sqrt(len(many))
    assert large.high - large.low == pytest.approx(2 * 1.96 * error, rel=0.1)


def test_questions_of_one_dialog_are_not_independent() -> None:
    values = [float(n % 2) for n in range(50) for _ in range(20)]
    alone = estimate(values, range(1000))
    together = estimate(values, [n for n in range(50) for _ in range(20)])
    assert together.mean == alone.mean
    assert together.high - together.low > 3 * (alone.high - alone.low)


def test_randomisation_agrees_with_counting_all_signs() -> None:
    differences = [0.3, 0.1, -0.05, 0.2, 0.4, 0.15]
    signs = np.array(np.meshgrid(*[[-1, 1]] * 6)).reshape(6, -1).T
    exact = np.mean(np.abs(signs @ differences) >= abs(sum(differences)) - 1e-12)
    assert randomisation(differences, range(6)) == pytest.approx(exact, abs=0.01)
    assert randomisation([0.0, 0.0], range(2)) == 1.0


def test_a_real_difference_is_seen_and_a_chance_one_is_not() -> None:
    random = np.random.default_rng(3)
    assert randomisation((random.normal(0.2, 1, 500)).tolist(), range(500)) < 0.01
    noise = [randomisation(random.normal(0, 1, 50).tolist(), range(50), rounds=500) for _ in range(100)]
    assert np.mean(np.array(noise) < 0.05) < 0.15


def test_holm_corrects_step_by_step() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_every_value_needs_its_cluster() -> None:
    with pytest.raises(ValueError, match="2 values"):
        estimate([1.0, 2.0], ["a"])
