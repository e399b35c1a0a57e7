"""How sure a difference is: intervals around means, and tests of paired differences.

Questions of one conversation share their topic and their difficulty, so whole conversations are drawn and flipped,
never single questions: 1,500 questions from 250 dialogs say less than 1,500 unrelated ones would. Everything is seeded
and repeats exactly. The tests apply to any measure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

SEED = 20
RESAMPLES = 2000
ROUNDS = 10_000

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over `n` questions with its 95 % interval."""

    mean: float
    low: float
    high: float
    n: int

    @classmethod
    def bare(cls, value: float, n: int) -> Estimate:
        """A figure that has no interval."""
        return cls(value, float("nan"), float("nan"), n)


def estimate(values: Sequence[float], clusters: Sequence[Hashable], resamples: int = RESAMPLES) -> Estimate:
    """The mean and its percentile bootstrap interval, drawing whole clusters with replacement.

    `clusters[i]` names the conversation of `values[i]`. Without a value everything is 0.
    """
    return estimates(np.asarray(values, dtype=np.float64).reshape(-1, 1), clusters, resamples)[0]


def estimates(values: Numbers, clusters: Sequence[Hashable], resamples: int = RESAMPLES) -> list[Estimate]:
    """`estimate` for every column of `(questions, columns)` at once, from the same draws."""
    count, columns = values.shape
    if not count:
        return [Estimate(0.0, 0.0, 0.0, 0)] * columns
    sums, sizes = _sums(values, clusters)
    drawn = _draws(len(sizes), resamples)
    means = (drawn @ sums) / (drawn @ sizes)[:, None]
    low, high = np.percentile(means, (2.5, 97.5), axis=0)
    mean = values.mean(axis=0)
    return [Estimate(float(mean[i]), float(low[i]), float(high[i]), count) for i in range(columns)]


def randomisation(differences: Sequence[float], clusters: Sequence[Hashable], rounds: int = ROUNDS) -> float:
    """Two-sided p of paired differences: how often random signs, one a cluster, give a sum as far from 0.

    With `k` clusters no p below 2 / 2^k is possible, whatever the differences.
    """
    if not differences or not np.any(differences):
        return 1.0
    sums = _sums(np.asarray(differences, dtype=np.float64).reshape(-1, 1), clusters)[0][:, 0]
    observed = abs(sums.sum()) - 1e-12
    extreme = int((np.abs(_signs(len(sums), rounds) @ sums) >= observed).sum())
    return (extreme + 1) / (rounds + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values of one family of tests, corrected by Holm's step-down method, in the order given."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    corrected, highest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = highest
    return corrected


# Seeded, so they depend on their shape alone; many systems are measured over the same conversations.
@lru_cache(maxsize=32)
def _draws(clusters: int, resamples: int) -> npt.NDArray[np.int64]:
    """How often each resample draws each cluster, `(resamples, clusters)`."""
    return np.random.default_rng(SEED).multinomial(clusters, np.full(clusters, 1 / clusters), resamples)


@lru_cache(maxsize=8)
def _signs(clusters: int, rounds: int) -> npt.NDArray[np.float32]:
    """A random sign for each cluster, `(rounds, clusters)`."""
    return (np.random.default_rng(SEED).integers(0, 2, (rounds, clusters)) * 2 - 1).astype(np.float32)


def _sums(values: Numbers, clusters: Sequence[Hashable]) -> tuple[Numbers, Numbers]:
    """Sums of the columns and number of rows of every cluster, in order of appearance."""
    if len(values) != len(clusters):
        raise ValueError(f"{len(values)} values, but {len(clusters)} names of clusters")
    places: dict[Hashable, int] = {}
    where = np.array([places.setdefault(cluster, len(places)) for cluster in clusters], dtype=np.intp)
    sums = np.zeros((len(places), values.shape[1]))
    np.add.at(sums, where, values)
    return sums, np.bincount(where).astype(np.float64)


def estimate_of(
    statistic: Callable[[Sequence[int]], float], clusters: Sequence[Hashable], resamples: int = 300
) -> Estimate:
    """`estimate` for what is no mean: `statistic` is given the places of the questions drawn."""
    members: dict[Hashable, list[int]] = {}
    for place, cluster in enumerate(clusters):
        members.setdefault(cluster, []).append(place)
    groups = list(members.values())
    if not groups:
        return Estimate(0.0, 0.0, 0.0, 0)
    drawn = np.random.default_rng(SEED).integers(0, len(groups), (resamples, len(groups)))
    values = [statistic([place for group in row for place in groups[group]]) for row in drawn]
    low, high = np.percentile(values, (2.5, 97.5))
    return Estimate(float(statistic(range(len(clusters)))), float(low), float(high), len(clusters))
