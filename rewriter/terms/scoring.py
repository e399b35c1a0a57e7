"""The exported model at work: readings in, probabilities out. onnxruntime only, no torch."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rewriter.protocol import RunError
from rewriter.terms.reading import TYPES, Reading

MODEL = "model.onnx"

INPUTS = ("ids", "types", "mask")

OUTPUTS = ("terms", "gate")

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scores:
    """Logits: of the reading's words `(words,)`, each the mean over its tokens, and that history is needed."""

    words: Floats
    gate: float


class TermScorer:
    """A model's file, opened; safe to call from several threads at once. Raises RunError where it is damaged."""

    def __init__(self, path: Path, vocabulary: int, threads: int = 1) -> None:
        if not path.is_file():
            raise RunError(f"{path} is missing: train or copy the rewriter again")
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # Spinning wins microseconds and takes whole cores from the engine that writes the answer.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 4
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the library raises bare exceptions of its own
            raise RunError(f"{path} cannot be opened ({error}): train or copy the rewriter again") from error
        self._options = onnxruntime.RunOptions
        self._check(path, vocabulary)

    def score(self, readings: Sequence[Reading], seconds: float = 60.0) -> list[Scores]:
        """The logits of each reading; raises RunError when the model fails or takes longer than `seconds`."""
        if not readings:
            return []
        options = self._options()
        with _terminated(options, seconds) as late:
            try:
                tokens, gates = self._session.run(list(OUTPUTS), _feed(readings), options)
            except Exception as error:  # the library raises bare exceptions of its own
                if late.is_set():
                    raise RunError(f"marking terms took longer than {seconds:g} s") from error
                raise RunError(f"the term model failed: {error}") from error
        rows = zip(np.asarray(tokens, np.float64), np.ravel(gates), readings, strict=True)
        return [Scores(_word_means(row, reading), float(gate)) for row, gate, reading in rows]

    def _check(self, path: Path, vocabulary: int) -> None:
        """Run the model on the last token of the tokenizer's vocabulary: one too few, and they do not fit."""
        inputs, outputs = ({item.name for item in of()} for of in (self._session.get_inputs, self._session.get_outputs))
        # Older models may give a third, which nothing asks for.
        if inputs != set(INPUTS) or not outputs.issuperset(OUTPUTS):
            raise RunError(f"{path} is no model of a term rewriter: train or copy the rewriter again")
        try:
            self.score([Reading((vocabulary - 1,), (TYPES - 1,), ())])
        except RunError as error:
            raise RunError(f"{path} and its tokenizer do not belong together ({error})") from error


@contextmanager
def _terminated(options: Any, seconds: float) -> Iterator[threading.Event]:
    """Ends the run that has these options after so many seconds; the event says whether it had to."""
    late = threading.Event()

    def end() -> None:
        late.set()
        options.terminate = True

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()


def _feed(readings: Sequence[Reading]) -> dict[str, npt.NDArray[np.int64]]:
    """Readings as the model's inputs, padded on the right with zeros."""
    longest = max(len(reading.ids) for reading in readings)
    ids, types, mask = (np.zeros((len(readings), longest), dtype=np.int64) for _ in INPUTS)
    for row, reading in enumerate(readings):
        length = len(reading.ids)
        ids[row, :length] = reading.ids
        types[row, :length] = reading.types
        mask[row, :length] = 1
    return dict(zip(INPUTS, (ids, types, mask), strict=True))


def _word_means(tokens: Floats, reading: Reading) -> Floats:
    return np.array([tokens[word.first : word.last].mean() for word in reading.words], dtype=np.float64)
