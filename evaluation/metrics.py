"""Measures of rankings and of texts, TREC runs, and how sure a difference is.

The numbers are those of ir-measures, which comes with the `eval` extra. Ties stay as they were ranked. A measure does
not depend on the system that is measured.

Questions of one conversation share their topic and their difficulty, so intervals and paired tests draw and flip
whole conversations: 1,500 questions from 250 dialogs say less than 1,500 unrelated ones. Everything is seeded and
repeats exactly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rewriter.examples import normalised
from text.modules import need_extra

Run: TypeAlias = Mapping[str, Sequence[str]]
"""Question id → ids found, best first."""

Qrels: TypeAlias = Mapping[str, Mapping[str, int]]
"""Question id → id → how relevant it is; 0 is not."""

MEASURES = ("AP", "R@5", "R@10", "R@20", "nDCG@5", "nDCG@10", "RR")

FULL_MEASURES = (
    "AP", "R@1", "R@3", "R@5", "R@10", "R@20", "nDCG@3", "nDCG@5", "nDCG@10", "RR",
)  # fmt: skip
"""Everything an evaluation reports; the mean of `AP` is MAP, that of `RR` is MRR."""


def evaluate(run: Run, qrels: Qrels, measures: Sequence[str] = MEASURES) -> dict[str, float]:
    """Each measure's mean over all judged questions; one that the run lacks counts 0."""
    totals = dict.fromkeys(measures, 0.0)
    for values in per_question(run, qrels, measures).values():
        for measure, value in values.items():
            totals[measure] += value
    return {measure: total / max(1, len(qrels)) for measure, total in totals.items()}


def per_question(run: Run, qrels: Qrels, measures: Sequence[str] = MEASURES) -> dict[str, dict[str, float]]:
    """Each measure for each judged question; names as ir-measures knows them (`R@5`, `nDCG@10`, `AP`)."""
    need_extra("eval", "Measuring retrieval", "ir_measures")
    import ir_measures

    by_name = {name: ir_measures.parse_measure(name) for name in measures}
    names = {measure: name for name, measure in by_name.items()}
    # Scores that fall with the rank: evaluation sorts by score and would break ties its own way.
    scored = {
        question: {item: 1.0 / rank for rank, item in reversed(list(enumerate(run.get(question, ()), start=1)))}
        for question in qrels
    }
    values = {question: dict.fromkeys(measures, 0.0) for question in qrels}
    for metric in ir_measures.iter_calc(list(by_name.values()), {q: dict(r) for q, r in qrels.items()}, scored):
        values[metric.query_id][names[metric.measure]] = float(metric.value)
    return values


def by_parent(run: Run, parents: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """A run over units as one over what they belong to, each at the rank of its best unit.

    A unit may belong to several (a proposition drawn from two sections); one that `parents` lacks, to none.
    """
    return {
        question: list(dict.fromkeys(parent for item in ids for parent in parents.get(item, ())))
        for question, ids in run.items()
    }


def read_run(path: Path) -> dict[str, list[str]]:
    """A TREC run, each question's ids by falling score; an id may hold spaces.

    Raises ValueError naming a malformed line.
    """
    scored: dict[str, list[tuple[float, str]]] = {}
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                head, _, score, _ = line.rsplit(maxsplit=3)
                question, q0, item = head.split(maxsplit=2)
                if q0 != "Q0":
                    raise ValueError
                scored.setdefault(question, []).append((float(score), item))
            except ValueError:
                expected = "`question Q0 id rank score tag`"
                raise ValueError(f"{path}, line {number}: expected {expected}, found {line.rstrip()!r}") from None
    return {
        question: [item for _, item in sorted(pairs, key=lambda pair: -pair[0])] for question, pairs in scored.items()
    }


_ONE_LINE = str.maketrans("\r\n", "  ")


def run_lines(question: str, ranking: Iterable[tuple[str, float]], tag: str) -> Iterator[str]:
    """One question's ranking, best first, as lines of a TREC run.

    A line break in an id, which a file's name may hold, is written as a blank. Scores are made to fall from line to
    line: evaluation tools sort by score, in single precision, and would otherwise order ties and reranked passages
    their own way.
    """
    ceiling = float("inf")
    for rank, (item, score) in enumerate(ranking, start=1):
        score = min(score, ceiling)
        ceiling = score - max(abs(score) * 1e-6, 1e-9)
        yield f"{question} Q0 {item.translate(_ONE_LINE)} {rank} {score:.9g} {tag}\n"


def token_f1(text: str, reference: str) -> float:
    """F1 over the words both share, counted as often as they occur; 1 where both are empty."""
    own, wanted = normalised(text).split(), normalised(reference).split()
    if not own or not wanted:
        return float(own == wanted)
    return 2 * (Counter(own) & Counter(wanted)).total() / (len(own) + len(wanted))


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
