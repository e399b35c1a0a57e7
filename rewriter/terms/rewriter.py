"""The term rewriter at the turn: gate, marked words, the expanded question."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rewriter.conversation import Conversation
from rewriter.errors import RunError
from rewriter.load import Serving
from rewriter.protocol import Rewrite, Term
from rewriter.terms.choosing import choose
from rewriter.terms.reading import TOKENIZER, ConversationReader
from rewriter.terms.scoring import MODEL, TermScorer

CALIBRATION = ("threshold", "gate_threshold", "gate_scale", "gate_shift")


@dataclass(frozen=True, slots=True)
class TermCalibration:
    """What a run's `rewriter.json` says about reading the model's numbers.

    A word is appended from probability `threshold` on. The gate's probability is the logistic function of
    `gate_scale * logit + gate_shift`; a question below `gate_threshold` is kept as typed.
    """

    threshold: float
    gate_threshold: float
    gate_scale: float
    gate_shift: float

    @classmethod
    def of(cls, description: Mapping[str, Any], folder: Path) -> TermCalibration:
        """Read from `rewriter.json`; raises RunError where a number is missing."""
        try:
            return cls(*(float(description[name]) for name in CALIBRATION))
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(
                f"{folder / 'rewriter.json'} lacks {' or '.join(CALIBRATION)} ({error!r}): "
                "train or copy the rewriter again"
            ) from error


class TermRewriter:
    """Expands a question by words of its history that it leaves out; writes no sentence.

    `needs_history` of its rewrites is calibrated. Below the gate's threshold a question is kept, with the
    gate's certainty as confidence. Raises RunError where the folder's files are missing or damaged.
    """

    def __init__(self, folder: Path, calibration: TermCalibration, *, seconds: float = 2.0, threads: int = 1) -> None:
        self._reader = ConversationReader.open(folder / TOKENIZER)
        self._scorer = TermScorer(folder / MODEL, self._reader.vocabulary, threads)
        self._calibration = calibration
        self._seconds = seconds

    @property
    def name(self) -> str:
        return "terms"

    def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
        """The question with the terms it leaves out; never raises."""
        if not conversation:
            return Rewrite(question, "keep", confidence=1.0, needs_history=0.0)
        started = time.perf_counter()
        calibration = self._calibration
        reading = self._reader.read(conversation, question)
        try:
            [scores] = self._scorer.score([reading], self._seconds)
        except RunError as error:
            return Rewrite(question, "failed", seconds=time.perf_counter() - started, reason=f"{error}.")
        needs = _probability(calibration.gate_scale * scores.gate + calibration.gate_shift)
        terms: tuple[Term, ...] = ()
        if needs >= calibration.gate_threshold:
            chances = [_probability(logit) for logit in scores.words]
            terms = choose(conversation, reading, chances, calibration.threshold)
        seconds = time.perf_counter() - started
        if not terms:
            return Rewrite(question, "keep", confidence=1 - needs, seconds=seconds, needs_history=needs)
        text = " ".join([question, *(term.text for term in terms)])
        return Rewrite(text, "expand", confidence=needs, seconds=seconds, expansion=terms, needs_history=needs)


def load(folder: Path, description: Mapping[str, Any], serving: Serving) -> TermRewriter:
    """The term rewriter of a finished run; raises RunError."""
    calibration = TermCalibration.of(description, folder)
    if serving.threshold is not None:
        calibration = replace(calibration, gate_threshold=serving.threshold)
    return TermRewriter(folder, calibration, seconds=serving.timeout_seconds, threads=serving.threads)


def _probability(logit: float) -> float:
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, logit))))
