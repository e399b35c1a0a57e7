"""Fit the weights of "Why this source?" (`plugins/evidence/explain.py`) on half of the papers of scisumm.

    python benchmarks/fit_why.py --data DATA [--home HOME]

The sentences that people meant are made likely among all of their paper (a softmax over the sentences of each citance,
with a small penalty of large weights). Prints the weights, nDCG@5 on the other half, and over five parts of all papers
that nothing was fitted on. Needs scipy.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

from index.encoders import load_encoder
from papers.citation_summaries.citances import CitanceCase, load_citances
from papers.citation_summaries.setups import SetupRanker
from server.registry import resolve
from server.settings import Settings

PENALTY = 0.02
PARTS = 5


def fitted(features: dict[str, Any], cases: list[CitanceCase], gold: dict[str, list[int]]) -> Any:
    """Weights of the features, in their order."""

    def loss(weights: Any) -> tuple[float, Any]:
        total, slope = 0.0, np.zeros(len(weights))
        for case in cases:
            rows, meant = features[case.id], gold[case.id]
            scores = rows @ weights
            chance = np.exp(scores - scores.max())
            chance /= chance.sum()
            total -= np.log(chance[meant] + 1e-12).mean()
            slope -= rows[meant].mean(axis=0) - chance @ rows
        return total / len(cases) + PENALTY * weights @ weights / 2, slope / len(cases) + PENALTY * weights

    start = np.zeros(next(iter(features.values())).shape[1])
    return minimize(loss, start, jac=True, method="L-BFGS-B").x


def ndcg(order: Any, gold: list[int]) -> float:
    """At 5, all gold being alike."""
    found = sum(1 / np.log2(rank + 2) for rank, place in enumerate(order[:5]) if place in gold)
    return float(found / sum(1 / np.log2(rank + 2) for rank in range(min(5, len(gold)))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--home", type=Path, default=Settings().home)
    options = parser.parse_args()
    cases, sources = load_citances(options.data)
    encoder = load_encoder(resolve(Settings().index.encoder, options.home))
    rankers = {name: SetupRanker(source, encoder) for name, source in sources.items()}
    features, gold = {}, {}
    for case in cases:
        ranker = rankers[case.document]
        features[case.id] = ranker.features(case.citance)
        gold[case.id] = [n for n, one in enumerate(ranker.source.sentences) if one.id in case.gold]

    def mean(weights: Any, chosen: Callable[[CitanceCase], bool]) -> list[float]:
        return [
            ndcg(np.argsort(-(features[one.id] @ weights), kind="stable"), gold[one.id]) for one in cases if chosen(one)
        ]

    weights = fitted(features, [one for one in cases if one.part == "fitted"], gold)
    print("weights", weights.round(2).tolist())
    print("nDCG@5 on dev", round(float(np.mean(mean(weights, lambda one: one.part == "dev"))), 4))
    names = sorted(sources)
    found = list[float]()
    for part in range(PARTS):
        out = set(names[part::PARTS])
        weights = fitted(features, [one for one in cases if one.document not in out], gold)
        found += mean(weights, lambda one, out=out: one.document in out)  # type: ignore[misc]
    print(f"nDCG@5 over {PARTS} parts of all papers", round(float(np.mean(found)), 4))


if __name__ == "__main__":
    main()
