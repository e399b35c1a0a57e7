"""Alignment: which sentences of a window a proposition says.

The span is a run of up to three neighbouring sentences (list items and table rows among them), chosen by how many
of the proposition's words it holds and how alike the two are to the encoder. Names a proposition took from title
and headings count as known. What is too far from every span is not aligned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from index.encoders import Encoder, Vectors
from synth.propositions.windows import DocumentWindow
from text.sentences import sentences
from text.words import numbers, stems

LONGEST_RUN = 3
_GAIN = 0.12
_OVERLAP_WEIGHT = 0.7
"""Of overlap in the score; the rest is similarity's."""
MIN_OVERLAP = 0.5
MIN_SIMILARITY = 0.45
_SURE_OVERLAP = 0.8


@dataclass(frozen=True, slots=True)
class Span:
    """A sentence of a window: offsets into its document."""

    start: int
    end: int
    words: frozenset[str]
    numbers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Aligned:
    """Where a proposition comes from. `overlap` is the share of its content words found there."""

    start: int
    end: int
    overlap: float
    similarity: float


class WindowAligner:
    """Aligns propositions with the sentences of one window; the sentences are encoded once."""

    def __init__(self, window: DocumentWindow, encoder: Encoder) -> None:
        self._window = window
        self._encoder = encoder
        text = window.document.text
        self._spans: list[Span] = []
        for piece in window.pieces:
            for sentence in sentences(text[piece.start : piece.end]):
                start, end = piece.start + sentence.start, piece.start + sentence.end
                if words := frozenset(stems(text[start:end])):
                    self._spans.append(Span(start, end, words, frozenset(numbers(text[start:end]))))
        known = (window.document.title, *(part for piece in window.pieces for part in piece.heading))
        self._known = frozenset(stems(" ".join(known)))
        self._vectors = encoder.encode([text[span.start : span.end] for span in self._spans])

    def align(self, propositions: Sequence[str]) -> list[Aligned | None]:
        """The source span of each proposition, None where there is none."""
        if not propositions or not self._spans:
            return [None] * len(propositions)
        vectors = self._encoder.encode(propositions)
        return [self._one(text, vector) for text, vector in zip(propositions, vectors, strict=True)]

    def _one(self, text: str, vector: Vectors) -> Aligned | None:
        said = frozenset(stems(text))
        if not said:
            return None
        similarity = self._vectors @ vector
        overlaps = np.array([self._overlap(said, span.words) for span in self._spans])
        first = last = int(np.argmax(_OVERLAP_WEIGHT * overlaps + (1 - _OVERLAP_WEIGHT) * similarity))
        figures = frozenset(numbers(text))
        while last - first + 1 < LONGEST_RUN:
            now = self._union(first, last)
            lacking = figures - self._figures(first, last)
            grown = [
                (self._overlap(said, self._union(*run)) + bool(lacking - (lacking - self._figures(*run))), run)
                for run in ((first - 1, last), (first, last + 1))
                if run[0] >= 0 and run[1] < len(self._spans)
            ]
            if not grown or max(grown)[0] < self._overlap(said, now) + _GAIN:
                break
            first, last = max(grown)[1]
        overlap = self._overlap(said, self._union(first, last))
        alike = float(similarity[first : last + 1].max())
        if overlap < MIN_OVERLAP or (overlap < _SURE_OVERLAP and alike < MIN_SIMILARITY):
            return None
        return Aligned(self._spans[first].start, self._spans[last].end, round(overlap, 3), round(alike, 3))

    def _overlap(self, said: frozenset[str], words: frozenset[str]) -> float:
        """Share of what is said that stands there; words only title and headings have are left out of the count."""
        asked = said - (self._known - words)
        if not asked:
            # Nothing beyond title and headings: no sentence is what it says.
            return 0.0
        return len(asked & words) / len(asked)

    def _union(self, first: int, last: int) -> frozenset[str]:
        return frozenset[str]().union(*(span.words for span in self._spans[first : last + 1]))

    def _figures(self, first: int, last: int) -> frozenset[str]:
        return frozenset[str]().union(*(span.numbers for span in self._spans[first : last + 1]))
