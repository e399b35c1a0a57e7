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

STEPS = 50
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
        """The gate that a `rewriter.json` names; older term rewriters wrote its parts side by side.

        Raises KeyError, TypeError or ValueError without.
        """
        parts = description.get("gate") or {
            part: description[f"gate_{part}"] for part in ("scale", "shift", "threshold")
        }
        return cls(**{part: float(value) for part, value in parts.items()})

    def probability(self, logit: float) -> float:
        """Calibrated probability that the question needs its conversation."""
        return probability(self.scale * logit + self.shift)

    def as_dict(self) -> dict[str, float]:
        """For `rewriter.json`."""
        return asdict(self)


def fit(differences: Sequence[float], needs: Sequence[bool], threshold: float = 0.5) -> RewriteGate:
    """The gate that makes the log-likelihood of `needs` greatest, by Newton's method; the identity without both kinds.

    `differences`, the logits, and `needs` are parallel. Targets are smoothed as Platt (1999) does.
    """
    positive, negative = sum(needs), len(needs) - sum(needs)
    if not positive or not negative:
        return RewriteGate(threshold=threshold)
    high, low = (positive + 1) / (positive + 2), 1 / (negative + 2)
    targets = [high if need else low for need in needs]
    # Differences of an overconfident model run into the tens: scaled, Newton's steps stay sane.
    spread = max(1.0, math.sqrt(sum(d * d for d in differences) / len(differences)))
    inputs = [d / spread for d in differences]
    scale, shift = spread, 0.0
    best = _loss(inputs, targets, scale, shift)
    for _ in range(STEPS):
        gradient, hessian = [RIDGE * scale, 0.0], [RIDGE, 0.0, RIDGE]
        for x, target in zip(inputs, targets, strict=True):
            p = probability(scale * x + shift)
            weight = p * (1 - p)
            gradient[0] += (p - target) * x
            gradient[1] += p - target
            hessian[0] += weight * x * x
            hessian[1] += weight * x
            hessian[2] += weight
        determinant = hessian[0] * hessian[2] - hessian[1] ** 2
        if determinant <= 0:
            break
        step = (
            (hessian[2] * gradient[0] - hessian[1] * gradient[1]) / determinant,
            (hessian[0] * gradient[1] - hessian[1] * gradient[0]) / determinant,
        )
        rate = 1.0
        while rate > 1e-4 and _loss(inputs, targets, scale - rate * step[0], shift - rate * step[1]) > best:
            rate /= 2
        scale, shift = scale - rate * step[0], shift - rate * step[1]
        now = _loss(inputs, targets, scale, shift)
        if best - now < 1e-9:
            break
        best = now
    return RewriteGate(max(scale / spread, 1e-3), shift, threshold)


def _loss(inputs: Sequence[float], targets: Sequence[float], scale: float, shift: float) -> float:
    total = 0.5 * RIDGE * scale * scale
    for x, target in zip(inputs, targets, strict=True):
        z = scale * x + shift
        total += max(z, 0.0) + math.log1p(math.exp(-abs(z))) - target * z
    return total


def probability(logit: float) -> float:
    """The logistic function; 0 where it is too far out for a float."""
    return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0
