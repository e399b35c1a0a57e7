"""Score a trained model on held-out text, through the engine that will serve it.

Text metrics only, beside those of copying the question: retrieval is measured by the server's evaluation, which
alone decides about promotion.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rewriter.conditional.engine import ConditionalEngine
from rewriter.examples import RewriteExample, normalised
from rewriter.gate import RewriteGate, fit

if TYPE_CHECKING:
    from rewriter.conditional.form import Form
    from rewriter.protocol import Rewriter

BATCH = 16


def fit_gate(engine: ConditionalEngine, form: Form, dev: Sequence[RewriteExample]) -> RewriteGate:
    """The gate calibrated on `dev`; questions without a conversation are left out, no gate is asked about them."""
    with_history = [example for example in dev if example.history]
    differences = list[float]()
    for start in range(0, len(with_history), BATCH):
        sources = [
            form.source(example.conversation, example.question) for example in with_history[start : start + BATCH]
        ]
        differences += [decision.difference for decision in engine.decide(sources, 0, lambda: False)]
    return fit(differences, [example.needs_rewrite for example in with_history])


def assess(rewriter: Rewriter, examples: Sequence[RewriteExample]) -> dict[str, float]:
    """Means over examples, 0 to 1, one turn at a time; none without any example.

    `gate_f1` is that of deciding to rewrite. Milliseconds are per turn.
    """
    if not examples:
        return {}
    rouge, copied, exact, copied_exact = 0.0, 0.0, 0, 0
    right, hits, claimed, needed, refused, failed = 0, 0, 0, 0, 0, 0
    milliseconds = list[float]()
    for example in examples:
        started = time.perf_counter()
        rewrite_made = rewriter.rewrite(example.conversation, example.question)
        milliseconds.append(1e3 * (time.perf_counter() - started))
        # A refused rewrite was still a decision to rewrite.
        says, needs = rewrite_made.decision in ("rewrite", "refused", "expand"), example.needs_rewrite
        # Words in place of a sentence are searched and not shown: what is shown is the typed question.
        words = rewrite_made.decision == "expand"
        rouge += rouge_l(example.question if words else rewrite_made.text, example.rewrite)
        copied += rouge_l(example.question, example.rewrite)
        exact += normalised(rewrite_made.text) == normalised(example.rewrite)
        copied_exact += not needs
        right += says == needs
        hits += says and needs
        claimed += says
        needed += needs
        refused += rewrite_made.decision == "refused" or words
        failed += rewrite_made.decision == "failed"
    n = len(examples)
    ordered = sorted(milliseconds)
    scores = {
        "examples": n,
        "rouge_l": rouge / n,
        "exact": exact / n,
        "copy_rouge_l": copied / n,
        "copy_exact": copied_exact / n,
        "gate_f1": 2 * hits / (claimed + needed) if claimed + needed else 1.0,
        "gate_accuracy": right / n,
        "refused": refused / n,
        "failed": failed / n,
        "p50_ms": ordered[n // 2],
        "p95_ms": ordered[min(n - 1, int(0.95 * n))],
    }
    return {name: round(value, 4) for name, value in scores.items()}


def rouge_l(text: str, wanted: str) -> float:
    """F1 of the longest common subsequence of words, case-folded, punctuation left out; 1 where both are empty."""
    a, b = normalised(text).split(), normalised(wanted).split()
    if not a or not b:
        return float(a == b)
    row = [0] * (len(b) + 1)
    for word in a:
        diagonal = 0
        for j, other in enumerate(b, start=1):
            diagonal, row[j] = row[j], diagonal + 1 if word == other else max(row[j], row[j - 1])
    common = row[-1]
    return 2 * common / (len(a) + len(b))
