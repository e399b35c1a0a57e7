"""Fit the head in torch, and choose by cross-validation over domains from which chance on quotes count as sure.

The loss is the negative log of the chance of all marked sentences together; of a question without any it is that of the
chance that none answers. From one in four answerable questions the passages with marked sentences are taken away, so
that how a question is put says nothing.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as f
from torch import Tensor, nn

from papers.answerability import fitting as decisions
from papers.orconvqa.answers import overlaps
from papers.sentence_selection.cases import UNCLEAR, Case
from server.turn import evidence as selection
from server.turn.decision import WITH_QUESTION, Chances, models
from server.turn.evidence import FEATURES, Array, SentenceHead, packaged_head
from server.turn.support import SupportScorer

DECISION = f"read{WITH_QUESTION}"
"""The decision's model: a cross-encoder has read, and the question has a vector."""


@dataclass(frozen=True, slots=True)
class HeadRecipe:
    """How a head is fitted; `left_out` is the share of answerable questions whose marked passages are taken away."""

    projected: int = 32
    hidden: int = 32
    dropout: float = 0.5
    weight_decay: float = 0.3
    learning_rate: float = 1e-3
    epochs: int = 15
    batch: int = 16
    left_out: float = 0.25
    seed: int = 0


class HeadModule(nn.Module):
    """The head as `server.turn.evidence.SentenceHead` computes it.

    It begins as what is known without training: a passage's odds, shared among its sentences, and matching words.
    """

    def __init__(self, width: int, recipe: HeadRecipe) -> None:
        super().__init__()
        known = len(FEATURES) + recipe.projected
        self.states = nn.Linear(width, recipe.projected)
        self.norm = nn.LayerNorm(recipe.projected)
        self.hidden = nn.Linear(known, recipe.hidden)
        self.out = nn.Linear(recipe.hidden, 1)
        self.direct = nn.Linear(known, 1)
        self.dropout = nn.Dropout(recipe.dropout)
        with torch.no_grad():
            self.out.weight.mul_(0.3)
            self.direct.weight.zero_()
            self.direct.bias.zero_()
            for name, weight in (("log odds", 5.0), ("log sentences", -3.0), ("match", 2.0)):
                self.direct.weight[0, FEATURES.index(name)] = weight

    def forward(self, features: Tensor, states: Tensor) -> Tensor:
        """The logits of sentences; that of no answer is 0."""
        known = torch.cat([features, self.norm(self.states(self.dropout(states)))], 1)
        hidden = f.gelu(self.hidden(self.dropout(known)), approximate="tanh")
        logits: Tensor = (self.out(self.dropout(hidden)) + self.direct(known))[:, 0]
        return logits

    def weights(self) -> dict[str, Array]:
        """The weights as they are packaged."""
        return {name: value.numpy().astype(np.float16) for name, value in self.state_dict().items()}


def fitted(cases: Sequence[Case], recipe: HeadRecipe) -> HeadModule:
    """Fit a head on cases; not on those of which nobody knows whether they have an answer."""
    cases = judged(cases)
    torch.manual_seed(recipe.seed)
    rng = np.random.default_rng(recipe.seed)
    model = HeadModule(cases[0].inputs.states.shape[1], recipe)
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    steps = recipe.epochs * math.ceil(len(cases) / recipe.batch)
    warm = min(30, steps // 10 + 1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / warm, 1 - step / steps))
    model.train()
    for _ in range(recipe.epochs):
        order = rng.permutation(len(cases))
        for start in range(0, len(order), recipe.batch):
            drawn = [_drawn(cases[n], rng, recipe.left_out) for n in order[start : start + recipe.batch]]
            kept = [mask for _, mask, _ in drawn]
            features = np.concatenate([case.inputs.features[mask] for case, mask, _ in drawn])
            states = np.concatenate([case.inputs.states[mask] for case, mask, _ in drawn])
            logits = model(torch.from_numpy(features), torch.from_numpy(states)).split([int(m.sum()) for m in kept])
            losses = [_loss(one, torch.from_numpy(gold)) for one, (_, _, gold) in zip(logits, drawn, strict=True)]
            optimizer.zero_grad()
            torch.stack(losses).mean().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    model.eval()
    return model


def _drawn(
    case: Case, rng: np.random.Generator, left_out: float
) -> tuple[Case, np.ndarray[tuple[int], np.dtype[np.bool_]], np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """A case with the sentences that are kept of it, and which of these are marked."""
    everything = np.ones(len(case.gold), dtype=np.bool_)
    if case.gold.any() and rng.random() < left_out:
        rest = ~np.isin(case.passages, case.passages[case.gold])
        if rest.any():
            return case, rest, case.gold[rest]
    return case, everything, case.gold


def _loss(logits: Tensor, gold: Tensor) -> Tensor:
    every = torch.logsumexp(torch.cat([logits, logits.new_zeros(1)]), 0)
    return every - torch.logsumexp(logits[gold], 0) if gold.any() else every


def judged(cases: Sequence[Case]) -> list[Case]:
    """The cases that have an answer, and those that have none."""
    return [case for case in cases if case.decision.kind != UNCLEAR]


@dataclass(frozen=True, slots=True)
class Quoted:
    """What is quoted of a case: whether it holds a marked quote, and the `sureness` of that, 0 where the quotes are too
    unlikely to. `sufficient` is how likely the passages answer after asking back.
    """

    case: Case
    shown: bool
    chance: float
    sufficient: float


def quoted(case: Case, head: SentenceHead, decided: Chances) -> Quoted:
    """Quote for a case as a chat does; `decided` is how likely the passages answer."""
    chances = head.chances(case.inputs)
    scorer = SupportScorer(case.evidence)
    quotes, _ = selection.nearest_sentences(case.matching, case.evidence, scorer, chances, odds=decided)
    documents = {one.n: one.document_id for one in case.evidence}
    spans = [(documents[quote.n], quote.start, quote.end) for quote in quotes]
    shown = any(overlaps(span, place) for span in spans for place in case.quotes)
    holding, relevance = selection.held(quotes[: selection.QUOTES], chances), 12 * case.decision.read["best relevance"]
    sure = selection.sureness(case.typed, holding, decided, relevance)
    likely = holding >= selection.HELD and decided.answer >= selection.ANSWERED
    return Quoted(case, shown, sure if likely else 0.0, decided.sufficient)


def cross_validated(cases: Sequence[Case], recipe: HeadRecipe, folds: int) -> list[Quoted]:
    """Quote for every case by a head, and a decision, that were fitted on other domains."""
    domains = sorted({case.domain for case in cases})
    chances = decisions.cross_validated(DECISION, [case.decision for case in cases])
    decided = dict(zip(map(id, cases), chances, strict=True))
    found = []
    for fold in range(folds):
        held_out = set(domains[fold::folds])
        head = SentenceHead(as_served(fitted([case for case in cases if case.domain not in held_out], recipe)))
        found += [quoted(case, head, decided[id(case)]) for case in judged(cases) if case.domain in held_out]
    return found


def packaged(cases: Sequence[Case]) -> list[Quoted]:
    """Quote for every case by the packaged head and decision."""
    own, cases = models().by_kind[DECISION], judged(cases)
    decided = decisions.by_model(lambda _: own)(DECISION, [case.decision for case in cases])
    head = packaged_head()
    return [quoted(case, head, chances) for case, chances in zip(cases, decided, strict=True)]


def as_served(model: HeadModule) -> Mapping[str, Array]:
    """The weights as they are after packaging."""
    return {name: value.astype(np.float32) for name, value in model.weights().items()}


HEAD = ("sure from", "answerable: shown", "shown and sure", "sure", "unanswerable: sure")


def table(found: Sequence[Quoted], thresholds: Sequence[float]) -> list[list[str]]:
    """Rows of `HEAD`, one for each threshold."""
    answerable = [one for one in found if one.case.answerable]
    other = [one for one in found if not one.case.answerable]

    def share(values: Sequence[bool]) -> str:
        return f"{np.mean(values):.3f}" if values else ""

    return [
        [
            f"{least:.2f}",
            share([one.shown for one in answerable]),
            share([one.shown and one.chance >= least for one in answerable]),
            share([one.chance >= least for one in answerable]),
            share([one.chance >= least for one in other]),
        ]
        for least in thresholds
    ]


def threshold(found: Sequence[Quoted], most: float) -> float:
    """The least chance, in hundredths, from which at most a share `most` of the unanswerable is quoted as sure."""
    chances = [one.chance for one in found if not one.case.answerable]
    return (
        next((n / 100 for n in range(101) if np.mean([chance >= n / 100 for chance in chances]) <= most), 1.0)
        if chances
        else 0.5
    )


def refusing(found: Sequence[Quoted], most: float) -> float:
    """The largest chance, in hundredths, below which at most a share `most` of the answerable is refused."""
    sufficient = sorted(one.sufficient for one in found if one.case.answerable)
    return max(n / 100 for n in range(101) if bisect_left(sufficient, n / 100) <= most * len(sufficient))


def far(found: Sequence[Quoted], most: float) -> float:
    """The largest whole relevance below which at most a share `most` of the marked quotes that are shown would be lost."""
    best = sorted(12 * one.case.decision.read["best relevance"] for one in found if one.shown)
    return max((float(n) for n in range(-12, 1) if bisect_left(best, n) <= most * len(best)), default=-12.0)
