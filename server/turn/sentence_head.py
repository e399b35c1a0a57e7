"""How likely each sentence of the passages answers a question: a small head on the states of the cross-encoder.

The packaged cross-encoder reads question and passage together to rank passages. The states of its tokens
(`index.query.TokenStates`) hold more than the one score that it gives: their mean over a sentence, together with how
the words match, how likely the passage is, where the sentence stands and what it is, tells which sentence answers. One
softmax runs over all sentences of the passages and over nothing: its chance is that no sentence answers (as in readers
for SQuAD 2.0, Devlin et al. 2019, section 4.3).

`sentence_head.npz` holds the weights; `python -m papers.sentence_selection` makes it. `docs/lab/citations.md` holds
what it is worth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt
import regex

from index.query import Hit, TokenStates
from server.turn.events import Evidence
from server.turn.quote_shapes import ITEM, LEADS_IN
from server.turn.support import SupportScorer
from text.sentences import sentences

Array = npt.NDArray[np.float32]
SentencePlace = tuple[int, int]
"""The number of a passage and the offset of a sentence in its document."""

FEATURES = (
    "match", "log odds", "relevance", "best relevance", "relevance below best", "place", "order", "reciprocal place",
    "number", "first", "position", "log sentences", "code", "row", "item", "leads in", "heading", "unread", "length",
    "code span", "link",
)  # fmt: skip
"""The log odds (of `Hit.score`) and the relevance are the passage's, `log sentences` is how many it has."""
_SURE = 1e-5


_LETTER, _LATIN = regex.compile(r"\p{L}"), regex.compile(r"\p{Latin}")


def readable(question: str) -> bool:
    """Return whether a question is written in the letters that the packaged cross-encoder learnt to read."""
    return 2 * len(_LATIN.findall(question)) >= len(_LETTER.findall(question))


@dataclass(frozen=True, slots=True, eq=False)
class SentenceInputs:
    """The head's input for a question's sentences: a row of each array for each of `places`.

    `features` is `(sentences, len(FEATURES))`, `states` `(sentences, width)`: the mean of the states of its tokens.
    """

    places: list[SentencePlace]
    features: Array
    states: Array


def sentence_inputs(
    question: str, evidence: Sequence[Evidence], hits: Mapping[int, Hit], scorer: SupportScorer
) -> SentenceInputs:
    """Describe every sentence of the passages whose hits, by the passages' numbers, have token states.

    `question` is what words are compared with.
    """
    read = [passage for passage in evidence if (hit := hits.get(passage.n)) and hit.tokens is not None]
    scores = [hits[passage.n].relevance or 0.0 for passage in read]
    best = max(scores, default=0.0)
    order = np.argsort(np.argsort(-np.array(scores), kind="stable"), kind="stable").tolist()
    places: list[SentencePlace] = []
    rows, means = list[list[float]](), list[Array]()
    for place, passage in enumerate(read):
        hit, relevance = hits[passage.n], scores[place]
        assert hit.tokens is not None
        chance = min(max(hit.score, _SURE), 1 - _SURE)
        kinds = {sentence.start: sentence.kind for sentence in sentences(passage.opened)}
        matches = scorer.matches(question, passage.n)
        of_passage = (
            math.log(chance / (1 - chance)), relevance, best, relevance - best, place, order[place], 5 / (1 + place)
        )  # fmt: skip
        for number, match in enumerate(matches):
            start, end = match.start - passage.start, match.end - passage.start
            states = _states_of(hit.tokens, start, end)
            in_passage = (
                math.log1p(number) / 2, float(not number), number / max(1, len(matches) - 1), math.log(len(matches)) / 3
            )  # fmt: skip
            own = _own_features(match.quote, kinds.get(match.start - passage.origin, "prose"), unread=not len(states))
            rows.append([match.score, *(value / 5 for value in of_passage), *in_passage, *own])
            places.append((passage.n, match.start))
            means.append(states.mean(axis=0) if len(states) else np.zeros(states.shape[1], dtype=np.float32))
    return SentenceInputs(places, np.array(rows, dtype=np.float32), np.array(means, dtype=np.float32))


def _own_features(text: str, kind: str, *, unread: bool) -> list[float]:
    begins = (ITEM.match(text), LEADS_IN.search(text), text.lstrip().startswith("#"))
    is_a = (kind == "code", kind == "row", *begins, unread)
    return [*(float(bool(value)) for value in is_a), math.log1p(len(text)) / 5, float("`" in text), float("](" in text)]


def _states_of(tokens: TokenStates, start: int, end: int) -> Array:
    """The states of the tokens between two offsets; none where the model had no room for them."""
    own = [n for n, (first, last) in enumerate(tokens.spans) if first < min(end, last) and start < last]
    return tokens.states[own[0] : own[-1] + 1] if own else tokens.states[:0]


@dataclass(frozen=True, slots=True, eq=False)
class SentenceHead:
    """The weights by name, as torch names them: one hidden layer beside a direct one."""

    weights: Mapping[str, Array]

    def chances(self, inputs: SentenceInputs) -> dict[SentencePlace, float]:
        """Return how likely each sentence is the one that answers; what they lack to 1 is that none does."""
        if not inputs.places:
            return {}
        w = self.weights
        projected = inputs.states @ w["states.weight"].T + w["states.bias"]
        spread = np.sqrt(projected.var(axis=1, keepdims=True) + 1e-5)
        normed = (projected - projected.mean(axis=1, keepdims=True)) / spread * w["norm.weight"] + w["norm.bias"]
        known = np.concatenate([inputs.features, normed], axis=1)
        hidden = _gelu(known @ w["hidden.weight"].T + w["hidden.bias"])
        logits = (hidden @ w["out.weight"].T + w["out.bias"] + known @ w["direct.weight"].T + w["direct.bias"])[:, 0]
        powers = np.exp(np.append(logits, 0.0) - max(0.0, float(logits.max())))
        return dict(zip(inputs.places, (powers[:-1] / powers.sum()).tolist(), strict=True))


def _gelu(x: Array) -> Array:
    """By tanh (Hendrycks and Gimpel 2016)."""
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), dtype=np.float32)


@cache
def packaged_head() -> SentenceHead:
    """Return the head of the packaged cross-encoder."""
    with files("server.turn").joinpath("sentence_head.npz").open("rb") as file, np.load(file) as held:
        return SentenceHead({name: held[name].astype(np.float32) for name in held.files})


def sentence_chances(
    question: str, evidence: Sequence[Evidence], hits: Mapping[int, Hit], scorer: SupportScorer
) -> dict[SentencePlace, float]:
    """Return how likely each sentence of the evidence answers, as `SentenceHead.chances`, by the packaged head."""
    return packaged_head().chances(sentence_inputs(question, evidence, hits, scorer))
