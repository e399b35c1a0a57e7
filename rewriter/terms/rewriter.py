"""The term rewriter at the turn: gate, marked words, the expanded question."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rewriter.conversation import Conversation
from rewriter.errors import RunError
from rewriter.gate import RewriteGate, probability
from rewriter.load import DESCRIPTION, Serving
from rewriter.protocol import Rewrite, Term
from rewriter.terms.choosing import choose
from rewriter.terms.reading import ConversationReader
from rewriter.terms.scoring import MODEL, TermScorer
from rewriter.tokenizer_file import TOKENIZER


class TermRewriter:
    """Expands a question by words of its history that it leaves out; writes no sentence.

    A word is appended from probability `threshold` on, where the gate opens.
    `needs_history` of its rewrites is calibrated. Below the gate's threshold a question is kept, with the
    gate's certainty as confidence. Raises RunError where the folder's files are missing or damaged.
    """

    def __init__(
        self, folder: Path, gate: RewriteGate, threshold: float, *, seconds: float = 2.0, threads: int = 1
    ) -> None:
        self._reader = ConversationReader.open(folder / TOKENIZER)
        self._scorer = TermScorer(folder / MODEL, self._reader.vocabulary, threads)
        self._gate = gate
        self._threshold = threshold
        self._seconds = seconds

    @property
    def name(self) -> str:
        return "terms"

    def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
        """The question with the terms it leaves out; never raises."""
        if not conversation:
            return Rewrite(question, "keep", confidence=1.0, needs_history=0.0)
        started = time.perf_counter()
        reading = self._reader.read(conversation, question)
        try:
            [scores] = self._scorer.score([reading], self._seconds)
        except RunError as error:
            return Rewrite(question, "failed", seconds=time.perf_counter() - started, reason=f"{error}.")
        needs = self._gate.probability(scores.gate)
        terms: tuple[Term, ...] = ()
        if needs >= self._gate.threshold:
            chances = [probability(logit) for logit in scores.words]
            terms = choose(conversation, reading, chances, self._threshold)
        seconds = time.perf_counter() - started
        if not terms:
            return Rewrite(question, "keep", confidence=1 - needs, seconds=seconds, needs_history=needs)
        text = " ".join([question, *(term.text for term in terms)])
        return Rewrite(text, "expand", confidence=needs, seconds=seconds, expansion=terms, needs_history=needs)


def load(folder: Path, description: Mapping[str, Any], serving: Serving) -> TermRewriter:
    """The term rewriter of a finished run; raises RunError."""
    try:
        gate, threshold = RewriteGate.of(description), float(description["threshold"])
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(
            f"{folder / DESCRIPTION} lacks threshold or gate ({error!r}): train or copy the rewriter again"
        ) from error
    if serving.threshold is not None:
        gate = replace(gate, threshold=serving.threshold)
    return TermRewriter(folder, gate, threshold, seconds=serving.timeout_seconds, threads=serving.threads)
