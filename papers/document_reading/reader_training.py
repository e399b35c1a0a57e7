"""The reader as a family that can be trained: a conditional rewriter, judged by what it answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from papers.document_reading.reader import open_reader
from rewriter.conditional import read_description
from rewriter.conditional_training import ConditionalFamily, fit_gate
from rewriter.examples import RewriteExample, normalised
from rewriter.protocol import RewriteGate
from rewriter.recipe import Recipe


class ReaderFamily(ConditionalFamily):
    """How readers are opened, exported and judged."""

    about = "It answers a question from one passage, or says that the passage does not answer it."

    def judge(
        self,
        recipe: Recipe,
        folder: Path,
        description: dict[str, Any],
        dev: Sequence[RewriteExample],
        test: Sequence[RewriteExample],
    ) -> tuple[dict[str, Any], dict[str, float]]:
        """The gate on `dev`; on `test` the F1 of words, silence where there is no answer counting as right."""
        form = read_description(folder, description | {"gate": RewriteGate().as_dict()}).form
        gate = {"gate": fit_gate(self.engine(folder, form), form, dev).as_dict()}
        reader = open_reader(folder, description | gate)
        scores = []
        for example in test:
            [(answer, _)] = reader.read(example.question, [message.text for message in example.history])
            wanted = example.rewrite if example.needs_rewrite else ""
            scores.append((_words_f1(answer, wanted), bool(answer) == bool(wanted)))
        reader.close()
        count = max(1, len(scores))
        return gate, {
            "examples": len(scores),
            "answer_f1": round(sum(f1 for f1, _ in scores) / count, 4),
            "gate_accuracy": round(sum(right for _, right in scores) / count, 4),
        }


def _words_f1(text: str, wanted: str) -> float:
    a, b = normalised(text).split(), normalised(wanted).split()
    if not a or not b:
        return float(a == b)
    return 2 * (Counter(a) & Counter(b)).total() / (len(a) + len(b))
