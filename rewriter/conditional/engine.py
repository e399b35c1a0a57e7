"""What a conditional model must be able to do, whatever runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

Stop: TypeAlias = Callable[[], bool]
"""Asked between decoding steps; True ends the work early."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What one greedy pass came to.

    `difference` is logit(rewrite) − logit(no_rewrite) of the first token. `phrased` are the ids after the gate,
    without the end token; None where the first token was not `<rewrite>`.
    """

    difference: float
    phrased: tuple[int, ...] | None


class ConditionalEngine(Protocol):
    """Runs a conditional model over batches of token ids; safe to call from several threads."""

    @property
    def name(self) -> str:
        """For traces and model cards, such as `ctranslate2 int8 cpu`."""

    def decide(self, sources: Sequence[Sequence[int]], limit: int, stop: Stop) -> list[Decided]:
        """The gate of each source and, where it opens by itself, the greedy rewrite of at most `limit` tokens."""

    def phrase(self, sources: Sequence[Sequence[int]], limit: int, n: int, stop: Stop) -> list[list[tuple[int, ...]]]:
        """`n` rewrites of each source, best first, whatever its gate says; without gate and end tokens."""
