"""The gate's calibration."""

from __future__ import annotations

import math
import random

import pytest

from rewriter.protocol import RewriteGate, fit

pytestmark = pytest.mark.extended


def test_a_fit_finds_the_probabilities_that_made_the_labels() -> None:
    rng = random.Random(5)
    true = RewriteGate(scale=0.25, shift=-0.5)
    differences = [rng.uniform(-20, 20) for _ in range(5000)]
    found = fit(differences, [rng.random() < true.probability(d) for d in differences])
    assert (found.scale, found.shift) == (pytest.approx(0.25, rel=0.1), pytest.approx(-0.5, abs=0.15))


def test_the_mean_probability_is_the_share_of_rewrites() -> None:
    rng = random.Random(6)
    differences = [rng.gauss(3, 4) for _ in range(400)]
    needs = [d + rng.gauss(0, 3) > 5 for d in differences]
    found = fit(differences, needs)
    assert sum(map(found.probability, differences)) / 400 == pytest.approx(sum(needs) / 400, abs=0.01)


@pytest.mark.parametrize("size", [1.0, 1e3, 1e-3])
def test_a_set_that_is_separated_perfectly_stays_finite(size: float) -> None:
    found = fit([-2 * size, -size, size, 2 * size], [False, False, True, True])
    assert math.isfinite(found.scale)
    assert found.scale > 0
    assert found.probability(2 * size) > found.probability(-2 * size)
