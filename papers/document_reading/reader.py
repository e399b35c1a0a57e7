"""A reader: a conditional model that answers a question from one passage, or says that the passage does not answer it.

It is trained and run as a rewriter is. The passage stands where the conversation does, the answer where the rewrite
does, and the gate tells whether there is one. Rows are those of `rewriter.examples`, with the passage as the history's
only message; where the passage does not answer, `rewrite` is the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import model_validator

from rewriter.conditional import EXPORT, ConditionalRewriter, Ct2Engine, read_description
from rewriter.load import RunKind, describe, verify
from rewriter.protocol import Conversation, Message
from rewriter.recipe import FAMILIES, ConditionalModelPart

BATCH = 16

READERS = RunKind("readers", "reader.json", "reader")
LENGTHS = {"source": 448, "target": 48, "question": 64, "assistant": 376, "turns": 1}


class ReaderModelPart(ConditionalModelPart):
    """A passage is read as an assistant's message, so `lengths` are longer; `decoder` is a base without an encoder."""

    kind: ClassVar[RunKind] = READERS
    family: Literal["reader"]  # type: ignore[assignment]
    decoder: bool = False

    @property
    def seq2seq(self) -> bool:
        return not self.decoder

    @model_validator(mode="before")
    @classmethod
    def _of_passages(cls, values: dict[str, Any]) -> dict[str, Any]:
        return values | {"lengths": LENGTHS | values.get("lengths", {})}


FAMILIES["reader"] = (ReaderModelPart, "papers.document_reading.reader_training:ReaderFamily")
"""Importing this module lets `rewriter.training` know the family."""


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
                answers = made.probability >= self._served.gate.threshold
                found.append((made.text if answers else "", made.probability))
        return found

    def close(self) -> None:
        """End its thread."""
        self._served.close()


def load_reader(folder: Path) -> TrainedReader:
    """The reader of a finished run. Raises RunError where it is unfinished, damaged, or cannot be opened."""
    description = describe(folder, READERS)
    verify(folder, description)
    return open_reader(folder, description)


def open_reader(folder: Path, description: dict[str, Any]) -> TrainedReader:
    """The reader that a description tells of; raises RunError."""
    run = read_description(folder, description)
    engine = Ct2Engine(folder / EXPORT, run.form)
    return TrainedReader(ConditionalRewriter(engine, run.form, run.gate, name=run.family))
