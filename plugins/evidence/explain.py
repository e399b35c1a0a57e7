"""Rank the sentences of a source by how much they bear on a sentence that cites it.

Names and years of a citation find the sentences that hold names, so markers are left out of the citing sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import regex

from index.ranking import K1
from plugins.evidence.source import SourcePassage, Within, numbered_texts
from server.chat.documents import NAME, NAMES, YEAR
from server.turn.support import SUPPORTED, SupportScorer

if TYPE_CHECKING:
    from index.encoders import TextEncoder

Numbers: TypeAlias = npt.NDArray[Any]
Queries: TypeAlias = Sequence[tuple[str, float]]
"""Texts to look for, with their weights."""

SENTENCES = 5
"""Sentences shown."""

NEAR = 0.55
"""Least cosine to the citing sentence; of a source without such a sentence nothing is shown."""
WORDS = 0.15
"""The same by shared words, where there is no encoder."""
LEAD_NEAR = 0.5
"""The lead is shown first where it has this cosine to the citing sentence."""

WEIGHTS = {
    "words": 0.43, "meaning": 0.47, "words around": 0.29, "meaning around": 0.25,
    "length": 0.4, "speaking": 0.7, "place": -0.8,
}  # fmt: skip
"""Of a sentence's features (`RankedTexts.features`), fitted by `papers.citation_summaries.fit`."""
_LONG = 40
_SPEAKING = regex.compile(
    r"\b(?:we|our|this paper|in this|propose|present|introduce|describe|show)\b", regex.IGNORECASE
)
_MARKER = regex.compile(
    rf"\((?:[^()]*\b{YEAR}[^()]*)\)"  # (Smith, 2019; Jones and Co 2020)
    rf"|\[(?:[^\[\]]*\b{YEAR}[^\[\]]*|[\d,;\s–-]+)\]|【[\d†\s]+】"  # [12], [3, 4], [Smith 90]
    rf"|{NAMES},? [(\[]{YEAR}(?:[,;] {YEAR}|[,;] [a-z]\b)*[)\]]"  # Smith and Jones (2019)
    rf"|{NAME}(?: (?:and|&) {NAME})? et al\b\.?,? {YEAR}"
    rf"|{NAME}(?: (?:and|&) {NAME})? et al\b\.?(?:['’]s)?"
)
_EMPTY = regex.compile(r"\(\s*(?:e\.g\.|cf\.|see|i\.e\.|[,;])*\s*\)|\s+(?=[.,;:!?])")


@dataclass(frozen=True, slots=True)
class WhySource:
    """A document as its sentences, in their order, each with its section's heading; the lead may be empty."""

    sentences: tuple[SourcePassage, ...]
    lead: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class WhyFound:
    """The ids of all sentences, best first, and the sentences to show, in the document's order.

    Without `bears` nothing is shown: no sentence could be matched. `near` is the cosine of the nearest sentence
    (the share of words without an encoder).
    """

    ranking: tuple[str, ...]
    shown: tuple[SourcePassage, ...]
    lead_first: bool
    bears: bool
    near: float


def without_markers(text: str) -> str:
    """Return a sentence without its citations: `[12]`, `(Smith, 2019)`, `Smith et al. (2019)`."""
    return " ".join(_EMPTY.sub("", _MARKER.sub(" ", text)).split())


class WhyRanker:
    """The sentences of one source, ready to be ranked for many citances. Blocks, and encodes each sentence once."""

    def __init__(self, source: WhySource, encoder: TextEncoder | None = None, k1: float = K1) -> None:
        self.source = source
        self._encoder = encoder
        self.sentences = RankedTexts([sentence.text for sentence in source.sentences], encoder, k1)

    @cached_property
    def _scorer(self) -> SupportScorer:
        return SupportScorer(numbered_texts(["\n\n".join(sentence.text for sentence in self.source.sentences)]))

    def near(self, citance: str) -> float:
        """Return the cosine of the nearest sentence to the citing one; without an encoder its support."""
        text = without_markers(citance) or citance
        if not self.source.sentences:
            return 0.0
        if self._encoder is None:
            return self._scorer.score(text, [1])
        return float(self.sentences.within.similarities(text).max())

    def bears(self, citance: str, near: float) -> bool:
        """Return whether the source seems to say what the citing sentence says, by meaning or word for word."""
        if near >= (WORDS if self._encoder is None else NEAR):
            return bool(self.source.sentences)
        return bool(self.source.sentences) and self._scorer.score(without_markers(citance) or citance, [1]) >= SUPPORTED

    def lead_near(self, citance: str) -> float:
        """Return the cosine of the lead to the citing sentence; 0 without a lead or an encoder."""
        if not self.source.lead or self._encoder is None:
            return 0.0
        lead, other = self._encoder.encode([self.source.lead, without_markers(citance) or citance])
        return float(lead @ other)

    def find(self, citance: str) -> WhyFound:
        """Rank the sentences for a sentence that cites the source."""
        sentences = self.source.sentences
        ranked = self.sentences.rank([(without_markers(citance) or citance, 1.0)])
        near = self.near(citance)
        bears = self.bears(citance, near)
        return WhyFound(
            ranking=tuple(dict.fromkeys(sentences[place].id for place in ranked)),
            shown=tuple(sentences[place] for place in sorted(ranked[:SENTENCES]) if bears),
            lead_first=bears and self.lead_near(citance) >= LEAD_NEAR,
            bears=bears,
            near=round(near, 3),
        )


class RankedTexts:
    """Texts with what is known of each beside the query."""

    def __init__(self, texts: Sequence[str], encoder: TextEncoder | None, k1: float) -> None:
        self.within = Within(texts, encoder, k1=k1)
        self.dense = encoder is not None
        around = [" ".join(texts[max(0, place - 1) : place + 2]) for place in range(len(texts))]
        self._around = Within(around, k1=k1)

    @cached_property
    def _own(self) -> list[Numbers]:
        """Return the features that need no query: the logarithm of the number of words, first-person authorship, and
        the relative position in the document from 0 to 1."""
        texts = self.within.texts
        lengths = np.log([1 + min(len(text.split()), _LONG) for text in texts])
        speaking = np.array([bool(_SPEAKING.search(text)) for text in texts], dtype=np.float64)
        return [lengths, speaking, np.arange(len(texts)) / max(1, len(texts))]

    def features(self, queries: Queries) -> Numbers:
        """`(texts, len(WEIGHTS))`: BM25 and cosine of each text and of it with its neighbours, standardised within the
        document (without an encoder cosines are 0), and what it has of its own."""
        lexical, around = (weighted_sum(ranker.overlaps, queries) for ranker in (self.within, self._around))
        dense = beside = np.zeros(len(lexical))
        if self.dense:
            dense = weighted_sum(self.within.similarities, queries)
            beside = self._dense_around(dense)
        return np.stack([*map(_standard, (lexical, dense, around, beside)), *self._own], axis=1)

    def rank(self, queries: Queries) -> list[int]:
        """Return the places of the texts, best first by the weighted sum of their features."""
        return best_first(self.features(queries) @ list(WEIGHTS.values())) if self.within.texts else []

    def _dense_around(self, dense: Numbers) -> Numbers:
        """Cosines to the mean of a sentence and its neighbours, which need not be encoded for it."""
        own = self.within.vectors
        sums, near = own.copy(), dense.copy()
        for total, scores in ((sums, own), (near, dense)):
            total[1:] += scores[:-1]
            total[:-1] += scores[1:]
        return np.asarray(near / np.maximum(np.linalg.norm(sums, axis=1), 1e-9))


def weighted_sum(score: Callable[[str], Numbers], queries: Queries) -> Numbers:
    return np.asarray(sum(weight * score(query).astype(np.float64) for query, weight in queries))


def best_first(scores: Numbers) -> list[int]:
    return [int(place) for place in np.argsort(-scores, kind="stable")]


def _standard(scores: Numbers) -> Numbers:
    standardised: Numbers = (scores - scores.mean()) / (scores.std() + 1e-9)
    return standardised
