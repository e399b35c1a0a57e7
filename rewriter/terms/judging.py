"""How well the heads do on dialogs they were not trained on, and the calibration of the gate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from rewriter.terms.data import Labelled
from rewriter.terms.model import Batch, TermModel

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

    def gate_f1(self, scale: float, shift: float, threshold: float) -> float:
        """F1 of "needs its history" at a calibrated probability."""
        return _f1(scale * self.gate + shift >= _logit(threshold), self.needed)[2]

    def gate_auc(self) -> float:
        """The chance that a question that needs its history scores above one that does not."""
        order = np.argsort(self.gate, kind="stable")
        ranks = np.empty(len(order))
        ranks[order] = np.arange(1, len(order) + 1)
        positive, negative = int(self.needed.sum()), int((~self.needed).sum())
        if not positive or not negative:
            return float("nan")
        return float((ranks[self.needed].sum() - positive * (positive + 1) / 2) / (positive * negative))


def judge(model: TermModel, items: Sequence[Labelled], device: str = "cpu", size: int = 32) -> Judgement:
    """The model's logits on labelled readings."""
    model.eval()
    terms, wanted, gates = list[float](), list[bool](), list[float]()
    with torch.inference_mode():
        for i in range(0, len(items), size):
            part = items[i : i + size]
            words, gate = model.logits(Batch.of([item.reading for item in part]).to(device))
            gates += gate.tolist()
            found = iter(words.tolist())
            for item in part:
                best: dict[str, tuple[float, bool]] = {}
                for word, is_wanted in zip(item.reading.words, item.wanted, strict=True):
                    best[word.stem] = max(best.get(word.stem, (-1e9, False)), (next(found), is_wanted))
                terms += [value for value, _ in best.values()]
                wanted += [is_wanted for _, is_wanted in best.values()]
    return Judgement(
        np.array(terms, np.float64),
        np.array(wanted, np.bool_),
        np.array(gates, np.float64),
        np.array([item.needs_history for item in items], np.bool_),
    )


def calibrated(judgement: Judgement, steps: int = 200) -> tuple[float, float]:
    """Scale and shift of the gate's logit by which its probability means what it says (Platt 1999)."""
    if len(set(judgement.needed.tolist())) < 2:
        return 1.0, 0.0
    logits, needed = torch.tensor(judgement.gate), torch.tensor(judgement.needed, dtype=torch.float64)
    line = torch.tensor([1.0, 0.0], dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([line], max_iter=steps, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        value = nn.functional.binary_cross_entropy_with_logits(line[0] * logits + line[1], needed)
        # A prior towards the head as trained: a small set must not make it certain.
        value = value + 0.5 * ((line[0] - 1) ** 2 + line[1] ** 2) / len(logits)
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    scale, shift = (float(value) for value in line.detach())
    return scale, shift


def _f1(found: Bools, right: Bools) -> tuple[float, float, float]:
    hits = float((found & right).sum())
    precision, recall = hits / max(1.0, float(found.sum())), hits / max(1.0, float(right.sum()))
    return precision, recall, 2 * precision * recall / max(1e-9, precision + recall)


def _logit(probability: float) -> float:
    return float(np.log(probability / (1 - probability)))
