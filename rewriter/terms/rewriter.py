"""The term rewriter at the turn: gate, marked words, the terms made of them, the expanded question.

It runs on onnxruntime and needs no torch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import regex

from rewriter.antecedents import resolve
from rewriter.gate import RewriteGate, probability
from rewriter.load import DESCRIPTION, Serving, verify
from rewriter.onnx_weights import TOKENIZER
from rewriter.protocol import Conversation, Rewrite, RunError, Term
from rewriter.terms.reading import TYPES, ConversationReader, Reading, Word

MODEL = "model.onnx"
INPUTS, OUTPUTS = ("ids", "types", "mask"), ("terms", "gate")
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


Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scores:
    """Logits: of the reading's words `(words,)`, each the mean over its tokens, and that history is needed."""

    words: Floats
    gate: float


class TermScorer:
    """A model's file, opened; safe to call from several threads at once. Raises RunError where it is damaged."""

    def __init__(self, path: Path, vocabulary: int) -> None:
        if not path.is_file():
            raise RunError(f"{path} is missing: train or copy the rewriter again")
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        # Spinning wins microseconds and takes whole cores from the engine that writes the answer.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 4
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the library raises bare exceptions of its own
            raise RunError(f"{path} cannot be opened ({error}): train or copy the rewriter again") from error
        self._options = onnxruntime.RunOptions
        inputs, outputs = ({item.name for item in of()} for of in (self._session.get_inputs, self._session.get_outputs))
        if (inputs, outputs) != (set(INPUTS), set(OUTPUTS)):
            raise RunError(f"{path} is no model of a term rewriter: train or copy the rewriter again")
        try:
            # The last token of the tokenizer's vocabulary: one too few in the model, and they do not fit.
            self.score(Reading((vocabulary - 1,), (TYPES - 1,), ()))
        except RunError as error:
            raise RunError(f"{path} and its tokenizer do not belong together ({error})") from error

    def score(self, reading: Reading, seconds: float = 60.0) -> Scores:
        """The logits of a reading; raises RunError when the model fails or takes longer than `seconds`."""
        options, late = self._options(), threading.Event()

        def end() -> None:
            late.set()
            options.terminate = True

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        rows = (reading.ids, reading.types, (1,) * len(reading.ids))
        feed = {name: np.array([row], np.int64) for name, row in zip(INPUTS, rows, strict=True)}
        try:
            [tokens], gate = self._session.run(list(OUTPUTS), feed, options)
        except Exception as error:  # the library raises bare exceptions of its own
            if late.is_set():
                raise RunError(f"marking terms took longer than {seconds:g} s") from error
            raise RunError(f"the term model failed: {error}") from error
        finally:
            timer.cancel()
        tokens = np.asarray(tokens, np.float64)
        means = [tokens[word.first : word.last].mean() for word in reading.words]
        return Scores(np.array(means, np.float64), float(np.ravel(gate)[0]))


class TermRewriter:
    """Expands a question by words of its history that it leaves out; writes no sentence.

    Where the gate opens, the item of a list that the question names is appended, else each word from probability
    `threshold` on.
    `history_probability` of its rewrites is calibrated. Below the gate's threshold a question is kept, with the
    gate's certainty as confidence. Raises RunError where the folder's files are missing or damaged.
    """

    def __init__(self, folder: Path, gate: RewriteGate, threshold: float, seconds: float = 2.0) -> None:
        self._reader = ConversationReader.open(folder / TOKENIZER)
        self._scorer = TermScorer(folder / MODEL, self._reader.vocabulary)
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
            scores = self._scorer.score(reading, self._seconds)
        except RunError as error:
            return Rewrite(question, "failed", seconds=time.perf_counter() - started, reason=f"{error}.")
        needs = self._gate.probability(scores.gate)
        terms: tuple[Term, ...] = ()
        if needs >= self._gate.threshold:
            chances = [probability(logit) for logit in scores.words]
            # Of a list the item that the question names says more than marked words, which come from all of its items.
            item = resolve(conversation, question)
            terms = (Term(item, 1.0),) if item else choose(conversation, reading, chances, self._threshold)
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
    return TermRewriter(folder, gate, threshold, serving.timeout_seconds)
