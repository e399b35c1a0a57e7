"""Answer, ask back or refuse: how likely each is right, told from the question and its search before a model writes.

A multinomial logistic model over signals that a turn has anyway: how much of the question's words the first passages
hold, how far the rankings agree, what a cross-encoder said, how much the question leans on the conversation, how it is
put, and the vector that it was searched by. Support by the documents can only raise the chance of answering: those
weights are bounded when the model is fitted. `python -m papers.answerability fit` writes `decision.json`;
`docs/lab/evaluation.md` holds what it is worth. Four models are kept: for passages that a cross-encoder has read or has
not, each with the question's vector and without.

`RetrievalProfile` holds the thresholds `answerable` and `ask_back`; `server.turn.run` acts on the outcome.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from statistics import pstdev
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import regex

from index.query import Hit
from server.settings.profile import RetrievalProfile
from server.turn.search import PAGE_VARIANT, Searchable, SearchPlan
from text.languages import ENGLISH, analysis, language_of
from text.words import stems

if TYPE_CHECKING:
    from index.encoders import Vectors

Outcome: TypeAlias = Literal["answer", "ask", "refuse"]
OTHERS: tuple[Literal["ask", "refuse"], ...] = ("ask", "refuse")
"""The outcomes that have weights; answering is what they are compared with."""

READ = 5
"""Passages looked at."""

FAR = -8.0
"""Nothing is quoted below a refusal where the cross-encoder finds each passage less relevant: `far`."""
UNSPOKEN, NAMED = -9.0, 0.3
"""The documents do not speak of an English question where each passage is less relevant than the first, and the first
passages together hold a smaller share of its words than the second."""

SUPPORT = ("best coverage", "joint coverage", "agreement")
RELEVANCE = ("best relevance", "relevance spread")
MONOTONE = frozenset((*SUPPORT, "best relevance"))
"""More of these never makes an answer less likely."""

_CUES: Mapping[str, str] = {
    "question word": "how what which where when who why",
    "trouble": "why error errors fails failed failing broken doesn't doesnt",
    "first person": "i my our we me mine",
    "again": "still now again keeps same",
    "denial": "not no never nothing don't dont doesn't doesnt can't cant won't isnt isn't",
    "advice": "should best better recommend right",
}
_YES_OR_NO = "is are can does do could will should"
_WORD = regex.compile(r"[\p{L}\p{N}]+(?:['’][\p{L}]+)*")

BASE = (
    *SUPPORT,
    *("first by typed", "length", "typed length", "words", "headings", "follow-up", "leaning"),
    *("question mark", "yes or no", *_CUES),
)
KINDS = {"unread": BASE, "read": (*BASE, *RELEVANCE)}
"""The signals of the models, by whether a cross-encoder read passages."""

WITH_QUESTION = " with question"
"""Ends the name of a model that reads the question's vector too."""


@dataclass(frozen=True, slots=True)
class Chances:
    """How likely each outcome is the right one; they sum to 1."""

    answer: float
    ask: float
    refuse: float

    @property
    def sufficient(self) -> float:
        """The probability that the passages answer, be it only after asking back."""
        return 1 - self.refuse


@dataclass(frozen=True, slots=True)
class DecisionModel:
    """For `ask` and `refuse`: what to add, and the weight of each signal by name, compared with answering.

    `question` holds the weights of the dimensions of the question's vector, where the model reads it.
    """

    bias: Mapping[str, float]
    weights: Mapping[str, Mapping[str, float]]
    question: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def chances(self, signals: Mapping[str, float], vector: Vectors | None = None) -> Chances:
        """By the softmax of the sums; a signal the model needs must be there, and the vector if it reads one."""
        sums = {
            name: self.bias[name] + sum(weight * signals[signal] for signal, weight in self.weights[name].items())
            for name in OTHERS
        }
        if self.question and vector is not None:
            sums = {name: value + float(np.dot(self.question[name], vector)) for name, value in sums.items()}
        odds = {name: math.exp(max(-30.0, min(30.0, value))) for name, value in sums.items()}
        total = 1 + sum(odds.values())
        return Chances(1 / total, odds["ask"] / total, odds["refuse"] / total)


@dataclass(frozen=True, slots=True)
class DecisionModels:
    """Models by kind, and the name of the encoder whose vectors some of them read; empty where none does."""

    encoder: str
    by_kind: Mapping[str, DecisionModel]


def language_of_hits(hits: Sequence[Hit], setting: str) -> str:
    """The language by whose stems words are compared with the passages, by `index.language`."""
    return analysis(setting, " ".join(hit.passage.text for hit in hits[:READ]))


def signals(plan: SearchPlan, hits: Sequence[Hit], language: str = ENGLISH) -> dict[str, float]:
    """Return the features of the model, each about 0 to 1; `best relevance` and `relevance spread` only where hits were
    read.

    `best coverage` and `joint coverage`: the share of the searched question's content words in the best of the first
    passages, and in all of them (rare words count more; 0.5 of a question without any). `agreement`: the mean over all
    rankings of the reciprocal rank they gave the first passage; `first by typed` that over the rankings by the question
    as typed. `length`, `typed length`: content words of what was searched for and typed. `headings`: sections among the
    first passages. `follow-up`: whether something was said before. `leaning`: the rewriter's belief that the question
    needs its history. The others tell how the question is put, by English words.
    """
    first = hits[:READ]
    searched = plan.variants.rerank_question or plan.question
    wanted = set(stems(searched, language))
    held = [frozenset(stems(hit.passage.indexed_text, language)) for hit in first]
    weights = {word: math.log(1 + len(held) / (0.5 + sum(word in words for words in held))) for word in wanted}
    total = sum(weights.values())
    shares = [sum(weights[word] for word in wanted & words) / total if total else 0.5 for words in held]
    every = frozenset[str]().union(*held)
    typed = [word.replace("’", "'") for word in _WORD.findall(plan.question.casefold())]
    values = {
        "best coverage": max(shares, default=0.0),
        "joint coverage": (sum(weights[word] for word in wanted & every) / total if total else 0.5) if held else 0.0,
        "agreement": _mean_reciprocal_rank(hits, ""),
        "first by typed": _mean_reciprocal_rank(hits, "typed"),
        "length": min(len(wanted), 12) / 12,
        "typed length": min(len(set(stems(plan.question, language))), 12) / 12,
        "words": min(len(typed), 25) / 25,
        "headings": len({(hit.passage.document_id, hit.passage.heading) for hit in first}) / READ,
        "follow-up": float(any(query.name not in ("typed", PAGE_VARIANT) for query in plan.variants.queries)),
        "leaning": 0.5 if plan.rewrite.history_probability is None else plan.rewrite.history_probability,
        "question mark": float("?" in plan.question or "？" in plan.question),
        "yes or no": _cue(_YES_OR_NO, typed[:4]),
        **{name: _cue(cues, typed) for name, cues in _CUES.items()},
    }
    # Scores of cross-encoders are logits, about -10 to 10.
    if read := [_squeezed(hit.relevance) for hit in hits if hit.relevance is not None]:
        values["best relevance"] = max(read)
        values["relevance spread"] = pstdev(read)
    return values


def chances(
    plan: SearchPlan, hits: Sequence[Hit], language: str = ENGLISH, searched: Searchable | None = None
) -> Chances:
    """Return the packaged models' probabilities for a search; there is nothing to answer from where it is empty, or
    where the documents do not speak of the question.

    The collection that was searched knows the question's vector. Without it, or with one of another encoder than the
    models were fitted on, they go by the signals alone.
    """
    if not hits:
        return Chances(0.0, 0.0, 1.0)
    values, packaged = signals(plan, hits, language), models()
    far = best_relevance(hits) < UNSPOKEN and values["joint coverage"] < NAMED
    # The cross-encoder learnt from English.
    if far and language == ENGLISH and language_of(plan.question) in ("", ENGLISH):
        return Chances(0.0, 0.0, 1.0)
    kind = "read" if "best relevance" in values else "unread"
    vector = searched.question_vector(plan.question, packaged.encoder) if searched is not None else None
    return packaged.by_kind[kind if vector is None else kind + WITH_QUESTION].chances(values, vector)


def best_relevance(hits: Sequence[Hit]) -> float:
    """Return the highest relevance of the hits, a logit; infinite where no cross-encoder read them."""
    return max((hit.relevance for hit in hits if hit.relevance is not None), default=math.inf)


def decide(chances: Chances, profile: RetrievalProfile, *, may_ask: bool = True) -> Outcome:
    """Return the outcome by the profile's thresholds; of two that are passed, the likelier."""
    asks = may_ask and chances.ask >= profile.ask_back > 0
    refuses = chances.sufficient < profile.answerable
    if asks and (not refuses or chances.ask >= chances.refuse):
        return "ask"
    return "refuse" if refuses else "answer"


@cache
def models() -> DecisionModels:
    """The packaged models."""
    packaged = json.loads(files("server.turn").joinpath("decision.json").read_text("utf-8"))
    return DecisionModels(
        packaged["encoder"], {name: DecisionModel(**model) for name, model in packaged["models"].items()}
    )


def _cue(cues: str, words: Sequence[str]) -> float:
    return float(not set(cues.split()).isdisjoint(words))


def _squeezed(score: float) -> float:
    return max(-1.0, min(1.0, score / 12)) if math.isfinite(score) else 0.0


def _mean_reciprocal_rank(hits: Sequence[Hit], variant: str) -> float:
    """Of the first passage, over the rankings by one query variant; over all for an empty name."""
    names = {name for hit in hits for name in hit.ranks if "/" in name and name.startswith(variant)}
    rankings = {name for name in names if not name.startswith(f"{PAGE_VARIANT}/")}
    if not rankings:
        return 0.0
    return sum(1 / hits[0].ranks[name] for name in rankings if name in hits[0].ranks) / len(rankings)
