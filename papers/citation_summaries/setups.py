"""Setups of "Why this source?" that were measured: contexts, keywords, paragraphs, rankings.

A sentence alone says little where it goes on with another; its neighbours, or the sentences of its paragraph that are
nearest to it, say more. `plugins.evidence.explain` is the default: the citing sentence, sentences, weighted features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from index.encoders import Vectors
from index.ranking import fuse
from plugins.evidence.explain import (
    LEAD_NEAR,
    SENTENCES,
    Numbers,
    Queries,
    RankedTexts,
    WhyRanker,
    WhySource,
    best_first,
    weighted_sum,
    without_markers,
)
from plugins.evidence.source import SourcePassage, clipped
from server.turn.support import SUPPORTED
from text.sentences import sentence_spans
from text.words import FUNCTION_WORDS, words

if TYPE_CHECKING:
    from index.encoders import Encoder

WhyContext = Literal["citance", "neighbours", "similar"]

WORDS = 0.15
"""Least share of words, where there is no encoder, with which a source bears on a sentence."""
KEYWORDS = 10
DIVERSITY = 0.5
NEAREST = 2
PARAGRAPHS = 2
PARAGRAPH_SENTENCES = 5
"""Paragraphs that sentences are taken from, and the sentences of one."""


@dataclass(frozen=True, slots=True)
class Citance:
    """A sentence that cites a source, what stands before and behind it, and the paragraph of all three.

    `before` and `after` may hold several sentences, or none; without a `paragraph` they are it.
    """

    text: str
    before: str = ""
    after: str = ""
    paragraph: str = ""


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


class WordsOnly:
    """An encoder that tells nothing of meaning: sentences are found by their words alone."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        return np.zeros((len(texts), 1), dtype=np.float32)


class SetupRanker:
    """The sentences of one source, ready to be ranked for many citances. Blocks, and encodes each sentence once."""

    def __init__(self, source: WhySource, encoder: Encoder | None = None) -> None:
        self.source = source
        self._encoder = encoder
        self._meaning = encoder or WordsOnly()
        self._known: dict[Citance, tuple[float, bool, bool]] = {}
        self._default = WhyRanker(source, self._meaning)
        self._sentences = self._default.sentences

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
    def _paragraphs(self) -> RankedTexts:
        texts = [" ".join(self.source.sentences[place].text for place in places) for places in self.paragraphs]
        return RankedTexts(texts, self._meaning)

    def queries(self, citance: Citance, plan: WhyPlan) -> Queries:
        """Return the weighted queries; keywords need an encoder."""
        text = context(citance, plan.context, self._encoder) or citance.text
        weighted = keywords(text, self._encoder) if plan.keywords and self._encoder is not None else []
        return weighted or [(text, 1.0)]

    def rank(self, citance: Citance, units: WhyUnits, plan: WhyPlan) -> list[int]:
        """Places of all sentences, or of all paragraphs, best first."""
        ranked = self._sentences if units == "sentences" else self._paragraphs
        by: WhyRanking = "bm25" if self._encoder is None and plan.ranking != "weighted" else plan.ranking
        return ranked_by(ranked, self.queries(citance, plan), by)

    def features(self, citance: Citance) -> Numbers:
        """Return the features of the sentences, `(sentences, len(WEIGHTS))`."""
        return self._sentences.features(self.queries(citance, WhyPlan()))

    def near(self, citance: Citance) -> float:
        """How near the nearest sentence comes to the citing one; without an encoder its support."""
        if self._encoder is None and self.source.sentences:
            return self._default.support(citance.text)
        return self._default.near(citance.text)

    def lead_near(self, citance: Citance) -> float:
        """Cosine of the lead to the citing sentence."""
        return self._default.lead_near(citance.text)

    def _judged(self, citance: Citance) -> tuple[float, bool, bool]:
        """How near it comes, whether it bears, and whether the lead goes first: the same for every plan."""
        if citance not in self._known:
            near = self.near(citance)
            bears = self._default.bears(citance.text, near) or (self._encoder is None and near >= WORDS)
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


def ranked_by(texts: RankedTexts, queries: Queries, by: WhyRanking) -> list[int]:
    """Places of the texts, best first."""
    if not texts.texts:
        return []
    if by == "weighted":
        return texts.rank(queries)
    lexical = weighted_sum(texts.overlaps, queries)
    if by == "bm25":
        return best_first(lexical)
    dense = best_first(weighted_sum(texts.similarities, queries))
    if by == "dense":
        return dense
    fused = fuse([("bm25", 1.0, [place for place in best_first(lexical) if lexical[place] > 0]), ("dense", 1.0, dense)])
    return [item.id for item in fused]


def source_of(lead: str, sentences: Sequence[SourcePassage], title: str = "") -> WhySource:
    """A source of these sentences; those without a word are left out."""
    return WhySource(tuple(sentence for sentence in sentences if sentence.text.strip()), clipped(lead, 1200), title)
