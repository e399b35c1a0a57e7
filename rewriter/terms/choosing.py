"""From probabilities of words to the terms that are appended: which stems, in which of their forms, in what order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import regex

from rewriter.conversation import Conversation
from rewriter.protocol import Term
from rewriter.terms.reading import Reading, Word

MOST = 12
"""Stems that are appended at most, the likeliest first."""

_JOINED = regex.compile(r"[\s\-‐–_/.'’&+]{1,2}")


@dataclass(frozen=True, slots=True)
class _Run:
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
    for word, probability in zip(reading.words, probabilities, strict=True):
        best[word.stem] = max(best.get(word.stem, 0.0), float(probability))
    marked = sorted((stem for stem in best if best[stem] >= threshold), key=best.__getitem__, reverse=True)[:most]
    open_stems = set(marked)
    runs = _runs(conversation, [word for word in reading.words if word.stem in open_stems])
    chosen: list[_Run] = []
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


def _runs(conversation: Conversation, words: Sequence[Word]) -> list[_Run]:
    runs: list[list[Word]] = []
    for word in sorted(words, key=lambda word: (word.message, word.start)):
        before = runs[-1][-1] if runs else None
        if before is not None and before.message == word.message:
            between = conversation.messages[word.message].text[before.end : word.start]
            if _JOINED.fullmatch(between) and ". " not in between:
                runs[-1].append(word)
                continue
        runs.append([word])
    return [_Run(run[0].message, tuple(run)) for run in runs]


def _trimmed(run: _Run, wanted: set[str]) -> _Run:
    """The run without the words at its ends that another term has already."""
    words = list(run.words)
    while words[0].stem not in wanted:
        words.pop(0)
    while words[-1].stem not in wanted:
        words.pop()
    return _Run(run.message, tuple(words))
