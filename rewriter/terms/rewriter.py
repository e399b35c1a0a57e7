"""The term rewriter at the turn: gate, marked words, the terms made of them, the expanded question."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import regex

from rewriter.gate import RewriteGate, probability
from rewriter.load import DESCRIPTION, Serving, verify
from rewriter.onnx_weights import TOKENIZER
from rewriter.protocol import Conversation, Rewrite, RunError, Term
from rewriter.terms.reading import ConversationReader, Reading, Word
from rewriter.terms.scoring import MODEL, TermScorer

MOST = 12
"""Stems that are appended at most, the likeliest first."""

_JOINED = regex.compile(r"[\s\-‐–_/.'’&+]{1,2}")


@dataclass(frozen=True, slots=True)
class _WordRun:
    """Marked words that stand side by side."""

    message: int
    words: tuple[Word, ...]

    @property
    def stems(self) -> frozenset[str]:
        return frozenset(word.stem for word in self.words)


def choose(
    conversation: Conversation, reading: Reading, probabilities: Sequence[float], threshold: float, most: int = MOST
) -> tuple[Term, ...]:
    """The terms to append, in the order in which they appear in the conversation.

    A stem counts by the likeliest of its words. Words that stand side by side stay one term, so that names
    keep their form; each stem is appended once, as part of the longest such run, the newest among equals.
    A term's score is the mean probability of its stems.
    """
    best: dict[str, float] = {}
    for word, chance in zip(reading.words, probabilities, strict=True):
        best[word.stem] = max(best.get(word.stem, 0.0), float(chance))
    marked = sorted((stem for stem in best if best[stem] >= threshold), key=best.__getitem__, reverse=True)[:most]
    open_stems = set(marked)
    runs = _runs(conversation, [word for word in reading.words if word.stem in open_stems])
    chosen: list[_WordRun] = []
    while open_stems:
        longest = max(runs, key=lambda run: (len(run.stems & open_stems), -len(run.words), run.message))
        chosen.append(_trimmed(longest, open_stems))
        open_stems -= longest.stems
    chosen.sort(key=lambda run: (run.message, run.words[0].start))
    return tuple(
        Term(
            conversation.messages[run.message].text[run.words[0].start : run.words[-1].end],
            round(sum(best[word.stem] for word in run.words) / len(run.words), 4),
        )
        for run in chosen
    )


def _runs(conversation: Conversation, words: Sequence[Word]) -> list[_WordRun]:
    runs: list[list[Word]] = []
    for word in sorted(words, key=lambda word: (word.message, word.start)):
        before = runs[-1][-1] if runs else None
        if before is not None and before.message == word.message:
            between = conversation.messages[word.message].text[before.end : word.start]
            if _JOINED.fullmatch(between) and ". " not in between:
                runs[-1].append(word)
                continue
        runs.append([word])
    return [_WordRun(run[0].message, tuple(run)) for run in runs]


def _trimmed(run: _WordRun, wanted: set[str]) -> _WordRun:
    """The run without the words at its ends that another term has already."""
    words = list(run.words)
    while words[0].stem not in wanted:
        words.pop(0)
    while words[-1].stem not in wanted:
        words.pop()
    return _WordRun(run.message, tuple(words))


class TermRewriter:
    """Expands a question by words of its history that it leaves out; writes no sentence.

    A word is appended from probability `threshold` on, where the gate opens.
    `history_probability` of its rewrites is calibrated. Below the gate's threshold a question is kept, with the
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
            return Rewrite(question, "keep", confidence=1.0, history_probability=0.0)
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
        result = Rewrite(question, "keep", 1 - needs, seconds=time.perf_counter() - started, history_probability=needs)
        if not terms:
            return result
        text = " ".join([question, *(term.text for term in terms)])
        return replace(result, text=text, decision="expand", confidence=needs, expansion=terms)


def load(folder: Path, description: Mapping[str, Any], serving: Serving) -> TermRewriter:
    """The term rewriter of a finished run; raises RunError where its files are missing or damaged."""
    verify(folder, description)
    try:
        gate, threshold = RewriteGate.of(description), float(description["threshold"])
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(
            f"{folder / DESCRIPTION} lacks threshold or gate ({error!r}): train or copy the rewriter again"
        ) from error
    if serving.threshold is not None:
        gate = replace(gate, threshold=serving.threshold)
    return TermRewriter(folder, gate, threshold, seconds=serving.timeout_seconds, threads=serving.threads)
