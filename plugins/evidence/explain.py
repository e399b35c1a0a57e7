"""The words a source is looked for with: the sentence that cites it, and what stands around that one.

A sentence alone says little where it goes on with another; its neighbours, or the sentences of its paragraph that are
nearest to it, say more. Names and years of a citation find the sentences that hold names, so markers are left out. The
caller decides where and how to search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import regex

from index.fusion import fuse
from index.lexical import K1
from plugins.evidence.rewrite_checks import EvidenceTexts
from plugins.evidence.source import SourcePassage, Within, clipped
from server.chat.documents import NAME, NAMES, YEAR
from server.turn.support import SUPPORTED
from text.sentences import sentence_spans
from text.words import FUNCTION_WORDS, words

if TYPE_CHECKING:
    from index.encoders import Encoder


WhyContext = Literal["citance", "neighbours", "similar"]

KEYWORDS = 10
DIVERSITY = 0.5
NEAREST = 2

_MARKER = regex.compile(
    rf"\((?:[^()]*\b{YEAR}[^()]*)\)"  # (Smith, 2019; Jones and Co 2020)
    rf"|\[(?:[^\[\]]*\b{YEAR}[^\[\]]*|[\d,;\s–-]+)\]|【[\d†\s]+】"  # [12], [3, 4], [Smith 90]
    rf"|{NAMES},? [(\[]{YEAR}(?:[,;] {YEAR}|[,;] [a-z]\b)*[)\]]"  # Smith and Jones (2019)
    rf"|{NAME}(?: (?:and|&) {NAME})? et al\b\.?,? {YEAR}"
    rf"|{NAME}(?: (?:and|&) {NAME})? et al\b\.?(?:['’]s)?"
)
_EMPTY = regex.compile(r"\(\s*(?:e\.g\.|cf\.|see|i\.e\.|[,;])*\s*\)|\s+(?=[.,;:!?])")


@dataclass(frozen=True, slots=True)
class Citance:
    """A sentence that cites a source, what stands before and behind it, and the paragraph of all three.

    `before` and `after` may hold several sentences, or none; without a `paragraph` they are it.
    """

    text: str
    before: str = ""
    after: str = ""
    paragraph: str = ""


def without_markers(text: str) -> str:
    """The words of a sentence without its citations: `[12]`, `(Smith, 2019)`, `Smith et al. (2019)`."""
    return " ".join(_EMPTY.sub("", _MARKER.sub(" ", text)).split())


def context(citance: Citance, kind: WhyContext, encoder: Encoder | None = None) -> str:
    """The words of a context without markers, in reading order; `similar` is `neighbours` where there is no encoder.

    Neighbours are the one sentence before and the one behind; similar ones the two of the paragraph nearest by meaning.
    """
    if kind == "citance":
        return without_markers(citance.text)
    if kind == "neighbours" or encoder is None:
        around = [*_sentences(citance.before)[-1:], citance.text, *_sentences(citance.after)[:1]]
        return without_markers(" ".join(around))
    own = " ".join(citance.text.split())
    paragraph = citance.paragraph or " ".join((citance.before, citance.text, citance.after))
    others = [_sentence for _sentence in _sentences(paragraph) if _sentence not in own]
    bare = [without_markers(text) for text in (own, *others)]
    vectors = encoder.encode(bare)
    nearest = sorted(int(place) for place in np.argsort(-(vectors[1:] @ vectors[0]), kind="stable")[:NEAREST])
    place = sum(paragraph.find(other) < paragraph.find(citance.text) for other in (others[i] for i in nearest))
    context_lines = [bare[1 + i] for i in nearest]
    return " ".join((*context_lines[:place], bare[0], *context_lines[place:]))


def keywords(text: str, encoder: Encoder, most: int = KEYWORDS) -> list[tuple[str, float]]:
    """Words and pairs of words that say what a text is about, with their cosine to it, by maximal marginal relevance.

    Those below the median cosine of the chosen are left out, as in the published code.
    """
    folded = words(text)
    candidates = list(dict.fromkeys(text for text in folded if text not in FUNCTION_WORDS and len(text) > 1))
    candidates += dict.fromkeys(
        f"{a} {b}" for a, b in pairwise(folded) if a not in FUNCTION_WORDS and b not in FUNCTION_WORDS
    )
    if not candidates:
        return []
    vectors = encoder.encode([text, *candidates])
    near = vectors[1:] @ vectors[0]
    alike = vectors[1:] @ vectors[1:].T
    chosen = [int(near.argmax())]
    while len(chosen) < min(most, len(candidates)):
        worth = (1 - DIVERSITY) * near - DIVERSITY * alike[:, chosen].max(axis=1)
        worth[chosen] = -np.inf
        chosen.append(int(worth.argmax()))
    middle = float(np.median(near[chosen]))
    return [(candidates[i], float(near[i])) for i in chosen if near[i] >= middle]


def _sentences(text: str) -> Sequence[str]:
    return [" ".join(text[start:end].split()) for start, end in sentence_spans(text)]


WhyUnits = Literal["sentences", "paragraphs"]
WhyRanking = Literal["bm25", "dense", "fused", "weighted"]
Numbers: TypeAlias = npt.NDArray[Any]

SENTENCES = 5
PARAGRAPHS = 2
"""Sentences shown, and paragraphs they are taken from."""
PARAGRAPH_SENTENCES = 5

NEAR = 0.55
"""A source none of whose sentences has this cosine to the citing one does not seem to say so."""
WORDS = 0.15
"""The same by shared words, where there is no encoder."""
LEAD_NEAR = 0.5
"""The lead is shown first where it has this cosine to the citing sentence."""

WEIGHTS = {
    "words": 0.43, "meaning": 0.47, "words around": 0.29, "meaning around": 0.25,
    "length": 0.4, "speaking": 0.7, "place": -0.8,
}  # fmt: skip
"""Of a sentence's features (`WhyRanker.features`), as `benchmarks/fit_why.py` fits them."""
_LONG = 40
_SPEAKING = regex.compile(
    r"\b(?:we|our|this paper|in this|propose|present|introduce|describe|show)\b", regex.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class WhySource:
    """A document as its sentences, in their order, each with its section's heading; the lead may be empty."""

    sentences: tuple[SourcePassage, ...]
    lead: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class WhyPlan:
    """How it is done; all but the defaults is for measuring. `told` shows the citing sentence to the writer too."""

    units: WhyUnits = "sentences"
    context: WhyContext = "citance"
    keywords: bool = False
    ranking: WhyRanking = "weighted"
    told: bool = False

    @property
    def name(self) -> str:
        """The setup in words."""
        query = f"{self.context} keywords" if self.keywords else self.context
        return f"{query}/{self.ranking}/{self.units}"


@dataclass(frozen=True, slots=True)
class WhySentence:
    """A sentence to show: from the document, or written by a model, with the sentences that support it.

    `support` is from 0 to 1; what is `SUPPORTED` at least may stand unmarked. A quotation supports itself.
    """

    ids: tuple[str, ...]
    text: str
    support: float = 1.0

    @property
    def supported(self) -> bool:
        """Whether the sentences it is linked to say it."""
        return self.support >= SUPPORTED


@dataclass(frozen=True, slots=True)
class WhyFound:
    """All sentences, best first, and those shown. Without `bears` nothing is shown: the source does not seem to say so.

    `near` is the cosine of the nearest sentence (the share of words where there is no encoder); `given` is what a
    writer is shown, and `refused` says what of its words was turned down.
    """

    ranking: tuple[str, ...]
    shown: tuple[WhySentence, ...]
    lead_first: bool
    bears: bool
    near: float
    given: tuple[SourcePassage, ...] = ()
    refused: str = ""


class WhyRanker:
    """The sentences of one source, ready to be ranked for many citances. Blocks, and encodes each sentence once."""

    def __init__(self, source: WhySource, encoder: Encoder | None = None, k1: float = K1) -> None:
        self.source = source
        self._encoder = encoder
        self._k1 = k1
        self._known: dict[Citance, tuple[float, bool, bool]] = {}
        self._sentences = _Ranked([sentence.text for sentence in source.sentences], encoder, k1)

    @cached_property
    def paragraphs(self) -> list[list[int]]:
        """The places of the sentences of each paragraph: five in a row of one section."""
        groups: list[list[int]] = []
        for place, sentence in enumerate(self.source.sentences):
            begins = place == 0 or sentence.section != self.source.sentences[place - 1].section
            if begins or len(groups[-1]) == PARAGRAPH_SENTENCES:
                groups.append([])
            groups[-1].append(place)
        return groups

    @cached_property
    def _paragraphs(self) -> _Ranked:
        texts = [" ".join(self.source.sentences[place].text for place in places) for places in self.paragraphs]
        return _Ranked(texts, self._encoder, self._k1)

    @cached_property
    def _evidence(self) -> EvidenceTexts:
        return EvidenceTexts(["\n\n".join(sentence.text for sentence in self.source.sentences)])

    def queries(self, citance: Citance, plan: WhyPlan) -> list[tuple[str, float]]:
        """Return the weighted queries; keywords need an encoder."""
        text = context(citance, plan.context, self._encoder) or citance.text
        weighted = keywords(text, self._encoder) if plan.keywords and self._encoder is not None else []
        return weighted or [(text, 1.0)]

    def rank(self, citance: Citance, units: WhyUnits, plan: WhyPlan) -> list[int]:
        """Places of all sentences, or of all paragraphs, best first."""
        ranked = self._sentences if units == "sentences" else self._paragraphs
        return ranked.rank(self.queries(citance, plan), plan.ranking)

    def features(self, citance: Citance) -> Numbers:
        """Return the features of the sentences, `(sentences, len(WEIGHTS))`."""
        return self._sentences.features(self.queries(citance, WhyPlan()))

    def near(self, citance: Citance) -> float:
        """How near the nearest sentence comes to the citing one: its cosine, or without an encoder its support."""
        text = context(citance, "citance") or citance.text
        if not self.source.sentences:
            return 0.0
        if self._encoder is None:
            return self._evidence.score(text)
        return float(self._sentences.within.similarities(text).max())

    def bears(self, citance: Citance, near: float) -> bool:
        """Whether the source seems to say what the citing sentence says, by meaning or word for word."""
        if near >= (WORDS if self._encoder is None else NEAR):
            return True
        return self._evidence.score(context(citance, "citance") or citance.text) >= SUPPORTED

    def lead_near(self, citance: Citance) -> float:
        """Cosine of the lead to the citing sentence; 0 where there is no lead, or no encoder."""
        if not self.source.lead or self._encoder is None:
            return 0.0
        lead, other = self._encoder.encode([self.source.lead, context(citance, "citance") or citance.text])
        return float(lead @ other)

    def _judged(self, citance: Citance) -> tuple[float, bool, bool]:
        """How near it comes, whether it bears, and whether the lead goes first: the same for every plan."""
        if citance not in self._known:
            near = self.near(citance)
            bears = bool(self.source.sentences) and self.bears(citance, near)
            self._known[citance] = near, bears, bears and self.lead_near(citance) >= LEAD_NEAR
        return self._known[citance]

    def find(self, citance: Citance, plan: WhyPlan) -> WhyFound:
        """The ranking, and the best sentences as they stand, in the document's order."""
        sentences = self.source.sentences
        ranked = self.rank(citance, "sentences", plan)
        numbers = ranked[:SENTENCES]
        best = sorted(numbers)
        if plan.units == "paragraphs":
            # Of the best paragraphs the best sentences: a reader gets five either way.
            own = {place: n for n, place in enumerate(ranked)}
            chosen = [self.paragraphs[place] for place in self.rank(citance, "paragraphs", plan)]
            ranked = [place for places in chosen for place in sorted(places, key=own.__getitem__)]
            numbers = [place for places in chosen[:PARAGRAPHS] for place in places]
            best = sorted(sorted(numbers, key=own.__getitem__)[:SENTENCES])
        near, bears, leads = self._judged(citance)
        return WhyFound(
            # Where two share an id, as in papers that were cut by hand, the better one counts.
            ranking=tuple(dict.fromkeys(sentences[place].id for place in ranked)),
            shown=tuple(WhySentence((sentences[place].id,), sentences[place].text) for place in best if bears),
            lead_first=leads,
            bears=bears,
            near=round(near, 3),
            given=tuple(sentences[place] for place in numbers if bears),
        )


class _Ranked:
    """Texts with what is known of each beside the query."""

    def __init__(self, texts: Sequence[str], encoder: Encoder | None, k1: float) -> None:
        self.within = Within(texts, encoder, k1=k1)
        self._dense = encoder is not None
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

    def features(self, queries: Sequence[tuple[str, float]]) -> Numbers:
        """`(texts, len(WEIGHTS))`: BM25 and cosine of each text and of it with its neighbours, standardised within the
        document (without an encoder cosines are 0), and what it has of its own."""
        lexical, around = (_summed(ranker.overlaps, queries) for ranker in (self.within, self._around))
        dense = beside = np.zeros(len(lexical))
        if self._dense:
            dense = _summed(self.within.similarities, queries)
            beside = self._dense_around(dense)
        return np.stack([*map(_standard, (lexical, dense, around, beside)), *self._own], axis=1)

    def rank(self, queries: Sequence[tuple[str, float]], by: WhyRanking) -> list[int]:
        if not self.within.texts:
            return []
        if by == "weighted":
            return _order(self.features(queries) @ list(WEIGHTS.values()))
        lexical = _summed(self.within.overlaps, queries)
        if by == "bm25" or not self._dense:
            return _order(lexical)
        dense = _order(_summed(self.within.similarities, queries))
        if by == "dense":
            return dense
        fused = fuse([("bm25", 1.0, [place for place in _order(lexical) if lexical[place] > 0]), ("dense", 1.0, dense)])
        return [item.id for item in fused]

    def _dense_around(self, dense: Numbers) -> Numbers:
        """Cosines to the mean of a sentence and its neighbours, which need not be encoded for it."""
        own = self.within.vectors
        sums, near = own.copy(), dense.copy()
        for total, scores in ((sums, own), (near, dense)):
            total[1:] += scores[:-1]
            total[:-1] += scores[1:]
        return np.asarray(near / np.maximum(np.linalg.norm(sums, axis=1), 1e-9))


def _summed(score: Callable[[str], Numbers], queries: Sequence[tuple[str, float]]) -> Numbers:
    return np.asarray(sum(weight * score(query).astype(np.float64) for query, weight in queries))


def _order(scores: Numbers) -> list[int]:
    return [int(place) for place in np.argsort(-scores, kind="stable")]


def _standard(scores: Numbers) -> Numbers:
    standardised: Numbers = (scores - scores.mean()) / (scores.std() + 1e-9)
    return standardised


def source_of(lead: str, sentences: Sequence[SourcePassage], title: str = "") -> WhySource:
    """A source of these sentences; those without a word are left out."""
    return WhySource(tuple(sentence for sentence in sentences if sentence.text.strip()), clipped(lead, 1200), title)
