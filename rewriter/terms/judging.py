"""How well the exported heads do on dialogs they were not trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rewriter.gate import RewriteGate
from rewriter.terms.data import Labelled
from rewriter.terms.scoring import TermScorer

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Judgement:
    """Held-out logits with their labels: of stems `(n,)`, the best of each stem's words, and of questions `(m,)`."""

    terms: Floats
    wanted: Bools
    gate: Floats
    needed: Bools

    def terms_at(self, threshold: float) -> tuple[float, float, float]:
        """Precision, recall and F1 of the stems appended at a probability."""
        return _f1(self.terms >= _logit(threshold), self.wanted)

    def gate_f1(self, gate: RewriteGate) -> float:
        """F1 of "needs its history" at the gate's threshold."""
        return _f1(gate.scale * self.gate + gate.shift >= _logit(gate.threshold), self.needed)[2]

    def gate_auc(self) -> float:
        """The chance that a question that needs its history scores above one that does not."""
        above = self.gate[self.needed][:, None] - self.gate[~self.needed]
        return float(((above > 0) + 0.5 * (above == 0)).mean()) if above.size else float("nan")


def judge(scorer: TermScorer, items: Sequence[Labelled]) -> Judgement:
    """The logits of labelled readings, as they will be served."""
    terms, wanted, gates = list[float](), list[bool](), list[float]()
    for item in items:
        [scores] = scorer.score([item.reading])
        gates.append(scores.gate)
        best: dict[str, tuple[float, bool]] = {}
        for word, is_wanted, value in zip(item.reading.words, item.wanted, scores.words.tolist(), strict=True):
            best[word.stem] = max(best.get(word.stem, (-1e9, False)), (value, is_wanted))
        terms += [value for value, _ in best.values()]
        wanted += [is_wanted for _, is_wanted in best.values()]
    return Judgement(
        np.array(terms, np.float64),
        np.array(wanted, np.bool_),
        np.array(gates, np.float64),
        np.array([item.needs_history for item in items], np.bool_),
    )


def _f1(found: Bools, right: Bools) -> tuple[float, float, float]:
    hits = float((found & right).sum())
    precision, recall = hits / max(1.0, float(found.sum())), hits / max(1.0, float(right.sum()))
    return precision, recall, 2 * precision * recall / max(1e-9, precision + recall)


def _logit(probability: float) -> float:
    return float(np.log(probability / (1 - probability)))
