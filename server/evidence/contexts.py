"""The words a source is looked for with: the sentence that cites it, and what stands around that one.

A sentence alone says little where it goes on with another; its neighbours, or the sentences of its paragraph that are
nearest to it, say more. Names and years of a citation find the sentences that hold names, so markers are left out. What
is searched, and how, is left to whoever searches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np
import regex

from text.sentences import sentence_spans
from text.words import FUNCTION_WORDS, words

if TYPE_CHECKING:
    from index.encoders import Encoder

WhyContext = Literal["citance", "neighbours", "similar"]

KEYWORDS = 10
DIVERSITY = 0.5
NEAREST = 2

YEAR = r"(?:19|20)\d\d[a-z]?"
NAME = r"\p{Lu}[\p{L}'’\-]+"
NAMES = rf"{NAME}(?:(?:,? (?:and|&) |, ){NAME})*(?:,? et al\b\.?)?"
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
    others = [one for one in _sentences(paragraph) if one not in own]
    bare = [without_markers(one) for one in (own, *others)]
    vectors = encoder.encode(bare)
    nearest = sorted(int(place) for place in np.argsort(-(vectors[1:] @ vectors[0]), kind="stable")[:NEAREST])
    place = sum(paragraph.find(other) < paragraph.find(citance.text) for other in (others[i] for i in nearest))
    shown = [bare[1 + i] for i in nearest]
    return " ".join((*shown[:place], bare[0], *shown[place:]))


def keywords(text: str, encoder: Encoder, most: int = KEYWORDS) -> list[tuple[str, float]]:
    """Words and pairs of words that say what a text is about, with their cosine to it, by maximal marginal relevance.

    Those below the median cosine of the chosen are left out, as in the published code.
    """
    folded = words(text)
    candidates = list(dict.fromkeys(one for one in folded if one not in FUNCTION_WORDS and len(one) > 1))
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
