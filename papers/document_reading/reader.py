"""A reader: a conditional model that answers a question from one passage, or says that the passage does not answer it.

It is trained and run as a rewriter is. The passage stands where the conversation does, the answer where the rewrite
does, and the gate tells whether there is one. Rows are those of `rewriter.examples`, with the passage as the history's
only message; where the passage does not answer, `rewrite` is the question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from rewriter.conditional import form as run_folder
from rewriter.conditional.assess import fit_gate
from rewriter.conditional.form import Lengths
from rewriter.conditional.serving import ConditionalRewriter, open_engine
from rewriter.conditional.training import ConditionalFamily, ConditionalModelPart
from rewriter.examples import RewriteExample, normalised
from rewriter.gate import RewriteGate
from rewriter.load import RunKind, Serving, describe, verify
from rewriter.protocol import Conversation, Message
from rewriter.training.recipe import FAMILIES, ModelPart, Recipe

BATCH = 16

READERS = RunKind("readers", "reader.json", "reader")
FAMILIES["reader"] = "papers.document_reading.reader:ReaderFamily"
"""Importing this module lets `anaphora train` know the family."""


class ReaderModelPart(ConditionalModelPart):
    """A passage is read as an assistant's message, so `lengths` are longer; `decoder` is a base without an encoder."""

    family: Literal["reader"]  # type: ignore[assignment]
    decoder: bool = False

    @property
    def kind(self) -> Literal["t5", "causal"]:
        return "causal" if self.decoder else "t5"

    @property
    def bounds(self) -> Lengths:
        return Lengths(**{"source": 448, "target": 48, "question": 64, "assistant": 376, "turns": 1} | self.lengths)


class TrainedReader:
    """A finished run that reads."""

    def __init__(self, served: ConditionalRewriter) -> None:
        self._served = served

    def read(self, question: str, passages: Sequence[str]) -> list[tuple[str, float]]:
        """What each passage answers, and the calibrated chance that it does; the empty text where it is below half."""
        found: list[tuple[str, float]] = []
        form = self._served.form
        for start in range(0, len(passages), BATCH):
            part = passages[start : start + BATCH]
            sources = [form.source(Conversation((Message("assistant", one),)), question) for one in part]
            for made in self._served.propose(sources, lambda: False):
                answers = made.probability >= self._served.gate.threshold and made.texts
                found.append((made.texts[0] if answers else "", made.probability))
        return found

    def close(self) -> None:
        """End its thread."""
        self._served.close()


def load_reader(folder: Path, serving: Serving = Serving()) -> TrainedReader:  # noqa: B008  (frozen)
    """The reader of a finished run. Raises RunError where it is unfinished, damaged, or cannot be opened."""
    description = describe(folder, READERS)
    verify(folder, description)
    return _opened(folder, description, serving)


def _opened(folder: Path, description: dict[str, Any], serving: Serving) -> TrainedReader:
    run = run_folder.read(folder, description)
    form = run.form(folder)
    return TrainedReader(ConditionalRewriter(open_engine(folder, run, form, serving), form, run.gate, name=run.family))


class ReaderFamily(ConditionalFamily):
    """How readers are opened, exported and judged."""

    settings: type[ModelPart] = ReaderModelPart
    kind = READERS
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
        run = run_folder.read(folder, description | {"gate": RewriteGate().as_dict()})
        form = run.form(folder)
        serving = Serving(device="cpu" if run.exports else "auto")
        gate = fit_gate(open_engine(folder, run, form, serving), form, dev)
        reader = _opened(folder, description | {"gate": gate.as_dict()}, serving)
        scores = []
        for example in test:
            [(said, _)] = reader.read(example.question, [message.text for message in example.history])
            wanted = example.rewrite if example.needs_rewrite else ""
            scores.append((_words_f1(said, wanted), bool(said) == bool(wanted)))
        reader.close()
        count = max(1, len(scores))
        return {"gate": gate.as_dict()}, {
            "examples": len(scores),
            "answer_f1": round(sum(f1 for f1, _ in scores) / count, 4),
            "gate_accuracy": round(sum(right for _, right in scores) / count, 4),
        }


def _words_f1(one: str, other: str) -> float:
    a, b = normalised(one).split(), normalised(other).split()
    if not a or not b:
        return float(a == b)
    return 2 * (Counter(a) & Counter(b)).total() / (len(a) + len(b))
