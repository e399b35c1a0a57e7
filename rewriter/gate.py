"""The gate: from a model's logit that a question needs its conversation to a probability that means something.

Platt scaling on what was held out: p = sigmoid(scale · logit + shift). The logit is that of a head (terms), or
logit(rewrite) − logit(no_rewrite) of the first token (T5, causal). At which p a question is rewritten is the
threshold's business, which is chosen on retrieval, not here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

STEPS = 200
RIDGE = 1e-3
"""Keeps the fit finite where a dev set is separated perfectly."""


@dataclass(frozen=True, slots=True)
class RewriteGate:
    """`scale` is above 0: a higher logit never means a lower probability."""

    scale: float = 1.0
    shift: float = 0.0
    threshold: float = 0.5

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> RewriteGate:
        """The gate that a `rewriter.json` names; raises KeyError, TypeError or ValueError without."""
        return cls(**{part: float(value) for part, value in description["gate"].items()})

    def probability(self, logit: float) -> float:
        """Calibrated probability that the question needs its conversation."""
        return probability(self.scale * logit + self.shift)

    def as_dict(self) -> dict[str, float]:
        """For `rewriter.json`."""
        return asdict(self)


def fit(logits: Sequence[float], needs: Sequence[bool], threshold: float = 0.5) -> RewriteGate:
    """The gate that makes the log-likelihood of `needs` greatest; the identity where they are all alike.

    Targets are smoothed as Platt (1999) does. Needs torch, which is there where gates are fitted.
    """
    positive, negative = sum(needs), len(needs) - sum(needs)
    if not positive or not negative:
        return RewriteGate(threshold=threshold)
    import torch

    high, low = (positive + 1) / (positive + 2), 1 / (negative + 2)
    inputs = torch.tensor(logits, dtype=torch.float64)
    targets = torch.tensor([high if need else low for need in needs], dtype=torch.float64)
    # Logits of an overconfident model run into the tens: scaled, the steps stay sane.
    spread = max(1.0, float(inputs.square().mean().sqrt()))
    line = torch.tensor([spread, 0.0], dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([line], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        fitted = line[0] * inputs / spread + line[1]
        value = torch.nn.functional.binary_cross_entropy_with_logits(fitted, targets, reduction="sum")
        value = value + RIDGE / 2 * line[0] ** 2
        value.backward()
        return value

    optimiser.step(loss)
    scale, shift = line.tolist()
    return RewriteGate(max(scale / spread, 1e-3), shift, threshold)


def probability(logit: float) -> float:
    """The logistic function; 0 where it is too far out for a float."""
    return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0
