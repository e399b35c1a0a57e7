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

from index.ranking import Bm25s
from plugins.evidence.source import SourcePassage, numbered_texts
from server.chat.documents import NAME, NAMES, YEAR
from server.turn.support import SUPPORTED, SupportScorer
from text.words import tokenize

if TYPE_CHECKING:
    from index.encoders import TextEncoder, Vectors

Numbers: TypeAlias = npt.NDArray[Any]
Queries: TypeAlias = Sequence[tuple[str, float]]
"""Texts to look for, with their weights."""

SENTENCES = 5
"""Sentences shown."""

NEAR = 0.55
"""Least cosine to the citing sentence; of a source without such a sentence nothing is shown."""
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

    Without `bears` nothing is shown: no sentence could be matched.
    """

    ranking: tuple[str, ...]
    shown: tuple[SourcePassage, ...]
    lead_first: bool
    bears: bool


def without_markers(text: str) -> str:
    """Return a sentence without its citations: `[12]`, `(Smith, 2019)`, `Smith et al. (2019)`."""
    return " ".join(_EMPTY.sub("", _MARKER.sub(" ", text)).split())


class WhyRanker:
    """The sentences of one source, ready to be ranked for many citances. Blocks, and encodes each sentence once."""

    def __init__(self, source: WhySource, encoder: TextEncoder) -> None:
        self.source = source
        self._encoder = encoder
        self.sentences = RankedTexts([sentence.text for sentence in source.sentences], encoder)

    @cached_property
    def _scorer(self) -> SupportScorer:
        return SupportScorer(numbered_texts(["\n\n".join(sentence.text for sentence in self.source.sentences)]))

    def near(self, citance: str) -> float:
        """Return the cosine of the nearest sentence to the citing one."""
        text = without_markers(citance) or citance
        return float(self.sentences.similarities(text).max()) if self.source.sentences else 0.0

    def bears(self, citance: str, near: float) -> bool:
        """Return whether the source seems to say what the citing sentence says, by meaning or word for word."""
        return near >= NEAR or (bool(self.source.sentences) and self.support(citance) >= SUPPORTED)

    def support(self, citance: str) -> float:
        """Return how far the words of the source bear out the citing sentence, from 0 to 1."""
        return self._scorer.score(without_markers(citance) or citance, [1])

    def lead_near(self, citance: str) -> float:
        """Return the cosine of the lead to the citing sentence; 0 without a lead."""
        if not self.source.lead:
            return 0.0
        lead, other = self._encoder.encode([self.source.lead, without_markers(citance) or citance])
        return float(lead @ other)

    def find(self, citance: str) -> WhyFound:
        """Rank the sentences for a sentence that cites the source."""
        sentences = self.source.sentences
        ranked = self.sentences.rank([(without_markers(citance) or citance, 1.0)])
        bears = self.bears(citance, self.near(citance))
        return WhyFound(
            ranking=tuple(dict.fromkeys(sentences[place].id for place in ranked)),
            shown=tuple(sentences[place] for place in sorted(ranked[:SENTENCES]) if bears),
            lead_first=bears and self.lead_near(citance) >= LEAD_NEAR,
            bears=bears,
        )


class RankedTexts:
    """Texts with what is known of each beside the query."""

    def __init__(self, texts: Sequence[str], encoder: TextEncoder) -> None:
        self.texts = list(texts)
        self._encoder = encoder
        around = (" ".join(texts[max(0, place - 1) : place + 2]) for place in range(len(texts)))
        self._lexical, self._around = (Bm25s.build(map(tokenize, each)) for each in (texts, around))

    @cached_property
    def _vectors(self) -> Vectors:
        return self._encoder.encode(self.texts)

    @cached_property
    def _own(self) -> list[Numbers]:
        """Return the features that need no query: the logarithm of the number of words, first-person authorship, and
        the relative position in the document from 0 to 1."""
        lengths = np.log([1 + min(len(text.split()), _LONG) for text in self.texts])
        speaking = np.array([bool(_SPEAKING.search(text)) for text in self.texts], dtype=np.float64)
        return [lengths, speaking, np.arange(len(self.texts)) / max(1, len(self.texts))]

    def similarities(self, query: str) -> Numbers:
        """Return the cosines of every text to the query, `(texts,)`."""
        return np.asarray(self._vectors @ self._encoder.encode([query])[0])

    def overlaps(self, query: str) -> Numbers:
        """Return the BM25 scores of every text for the query, `(texts,)`."""
        return self._lexical.scores(query)

    def features(self, queries: Queries) -> Numbers:
        """`(texts, len(WEIGHTS))`: BM25 and cosine of each text and of it with its neighbours, standardised within the
        document, and what it has of its own."""
        lexical, around = (weighted_sum(index.scores, queries) for index in (self._lexical, self._around))
        dense = weighted_sum(self.similarities, queries)
        scores = np.stack([lexical, dense, around, self._dense_around(dense)])
        standard = (scores - scores.mean(1, keepdims=True)) / (scores.std(1, keepdims=True) + 1e-9)
        return np.stack([*standard, *self._own], axis=1)

    def rank(self, queries: Queries) -> list[int]:
        """Return the places of the texts, best first by the weighted sum of their features."""
        return best_first(self.features(queries) @ list(WEIGHTS.values())) if self.texts else []

    def _dense_around(self, dense: Numbers) -> Numbers:
        """Cosines to the mean of a sentence and its neighbours, which need not be encoded for it."""
        own = self._vectors
        sums, near = own.copy(), dense.copy()
        for total, scores in ((sums, own), (near, dense)):
            total[1:] += scores[:-1]
            total[:-1] += scores[1:]
        return np.asarray(near / np.maximum(np.linalg.norm(sums, axis=1), 1e-9))


def weighted_sum(score: Callable[[str], Numbers], queries: Queries) -> Numbers:
    return np.asarray(sum(weight * score(query).astype(np.float64) for query, weight in queries))


def best_first(scores: Numbers) -> list[int]:
    return [int(place) for place in np.argsort(-scores, kind="stable")]
