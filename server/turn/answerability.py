"""How likely the found passages answer a question, told from the search alone, before any model writes.

A logistic model over a few signals of the search: how much of the question's words, weighted by their rarity,
the passages hold; how far the rankings agree on the first passage; and, where a cross-encoder read them, its
scores. `anaphora eval answerability` fits the numbers in `answerability.toml`; `docs/evaluation.md` holds its
curve. Whether a turn refuses by it is the pipeline's decision: where the probability is below
`retrieval.answerable`, no model is asked.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from index.query import Hit
from text.words import stems

READ = 5
"""Passages looked at."""

BASE = ("best coverage", "joint coverage", "agreement", "length")
WITH_RELEVANCE = (*BASE, "best relevance", "mean relevance")


@dataclass(frozen=True, slots=True)
class AnswerabilityModel:
    """Weights of the signals by name, and what to add; probabilities are `1 / (1 + exp(-z))`."""

    bias: float
    weights: Mapping[str, float]

    def probability(self, signals: Mapping[str, float]) -> float:
        """Between 0 and 1; a signal the model needs must be there."""
        z = self.bias + sum(weight * signals[name] for name, weight in self.weights.items())
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, z))))


def signals(question: str, hits: Sequence[Hit]) -> dict[str, float]:
    """What a search tells about its chance to answer `question`, in full as far as it is known.

    `best coverage` and `joint coverage`: the share of the question's content words in the best of the first
    passages, and in all of them together (0 to 1; rare words count more; 0.5 of a question without any).
    `agreement`: the mean over all rankings of the reciprocal rank they gave the first passage. `length`: content
    words of the question, up to 12, as a share. With a cross-encoder `best relevance` and `mean relevance`: its
    scores over the first passages, squeezed to 0 to 1.
    """
    first = hits[:READ]
    wanted = set(stems(question))
    held = [frozenset(stems(hit.passage.indexed_text)) for hit in first]
    weights = {word: math.log(1 + len(held) / (0.5 + sum(word in words for words in held))) for word in wanted}
    total = sum(weights.values())
    coverages = [sum(weights[word] for word in wanted & words) / total if total else 0.5 for words in held]
    every = frozenset[str]().union(*held)
    found = {
        "best coverage": max(coverages, default=0.0),
        "joint coverage": (sum(weights[word] for word in wanted & every) / total if total else 0.5) if held else 0.0,
        "agreement": _agreement(hits),
        "length": min(len(wanted), 12) / 12,
    }
    read = sorted((hit.relevance for hit in hits if hit.relevance is not None), reverse=True)[:READ]
    if read:
        squeezed = [1 / (1 + math.exp(-max(-30.0, min(30.0, score)))) for score in read]
        found["best relevance"] = squeezed[0]
        found["mean relevance"] = sum(squeezed) / len(squeezed)
    return found


def answerability(question: str, hits: Sequence[Hit]) -> float:
    """The probability that the passages answer the question; 0 where nothing was found."""
    if not hits:
        return 0.0
    found = signals(question, hits)
    return models()["with relevance" if "best relevance" in found else "base"].probability(found)


@cache
def models() -> dict[str, AnswerabilityModel]:
    """The fitted models: `base`, and `with relevance` for reranked hits."""
    text = files("server.turn").joinpath("answerability.toml").read_text("utf-8")
    return {
        name.replace("_", " "): AnswerabilityModel(table["bias"], table["weights"])
        for name, table in tomllib.loads(text).items()
        if isinstance(table, dict)
    }


def _agreement(hits: Sequence[Hit]) -> float:
    rankings = {name for hit in hits for name in hit.ranks if name != "rerank"}
    if not rankings:
        return 0.0
    return sum(1 / hits[0].ranks[name] for name in rankings if name in hits[0].ranks) / len(rankings)
