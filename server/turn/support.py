"""How well a statement is supported by the passages it cites, and by which of their sentences.

Cheap on purpose: it runs between two tokens of an answer. The score is the share of the statement's
content, weighted by rarity within the evidence, that one or two neighbouring sentences contain; a number
that the passage does not have, or a negation that only one side has, costs most of it. `docs/citations.md`
holds the measurements behind the constants. It compares words and can neither reason nor translate.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from index.sentences import sentence_spans
from rewriter.words import negations, numbers, stems
from server.turn.events import Evidence

SUPPORTED = 0.5
"""A statement with at least this score counts as supported; chosen in `docs/citations.md`."""

_LOST_NUMBER = 0.4
_FLIPPED = 0.5
_WIDER = 0.95


@dataclass(frozen=True, slots=True)
class Support:
    """The best support found: score from 0 to 1, and the evidence sentence by its offsets in the document."""

    n: int
    score: float
    quote: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Sentence:
    start: int
    end: int
    stems: frozenset[str]
    negations: int


class SupportScorer:
    """Scores statements against the numbered evidence of one turn; not safe for several threads at once."""

    def __init__(self, evidence: Sequence[Evidence]) -> None:
        self._evidence = {passage.n: passage for passage in evidence}

    def best(self, statement: str, cited: Iterable[int]) -> Support | None:
        """The sentence of the cited passages that supports `statement` best; None where nothing is cited."""
        wanted = frozenset(stems(statement))
        found = [self._in_passage(statement, wanted, n) for n in dict.fromkeys(cited) if n in self._evidence]
        return max(found, key=lambda support: support.score, default=None)

    def score(self, statement: str, cited: Iterable[int]) -> float:
        """How well the cited passages support `statement`, alone or two together, from 0 to 1."""
        known = [n for n in dict.fromkeys(cited) if n in self._evidence]
        best = self.best(statement, known)
        if best is None:
            return 0.0
        wanted = frozenset(stems(statement))
        windows = sorted((self._window(wanted, n) for n in known), key=lambda window: -window[0])[:2]
        if len(windows) < 2 or numbers(statement) - set().union(*(self._numbers(n) for n in known)):
            return best.score
        joint = _WIDER * self._overlap(wanted, windows[0][2] | windows[1][2])
        flipped = (negations(statement) > 0) != any(self._sentences[n][i].negations > 0 for _, i, _, n in windows)
        return max(best.score, round(joint * (_FLIPPED if flipped else 1), 3))

    def _in_passage(self, statement: str, wanted: frozenset[str], n: int) -> Support:
        passage = self._evidence[n]
        score, i, _, _ = self._window(wanted, n)
        at = self._sentences[n][i]
        if numbers(statement) - self._numbers(n):
            score *= _LOST_NUMBER
        if (negations(statement) > 0) != (at.negations > 0):
            score *= _FLIPPED
        quote = passage.text[at.start : at.end]
        return Support(n, round(score, 3), quote, passage.start + at.start, passage.start + at.end)

    def _window(self, wanted: frozenset[str], n: int) -> tuple[float, int, frozenset[str], int]:
        """Score of the best sentence of passage `n`, neighbours helping a little; its index; the words used."""
        sentences = self._sentences[n]
        scores = [self._overlap(wanted, sentence.stems) for sentence in sentences]
        i = max(range(len(scores)), key=scores.__getitem__)
        best = (scores[i], i, sentences[i].stems, n)
        for j in (i - 1, i + 1):
            if 0 <= j < len(sentences):
                both = sentences[i].stems | sentences[j].stems
                best = max(best, (_WIDER * self._overlap(wanted, both), i, both, n), key=lambda window: window[0])
        return best

    def _overlap(self, wanted: frozenset[str], held: frozenset[str]) -> float:
        total = sum(self._weight(stem) for stem in wanted)
        return sum(self._weight(stem) for stem in wanted & held) / total if total else 0.0

    def _weight(self, stem: str) -> float:
        return math.log(1 + self._count / (0.5 + self._frequency[stem]))

    def _numbers(self, n: int) -> set[str]:
        passage = self._evidence[n]
        return numbers(" ".join((passage.title, *passage.heading, passage.text)))

    @cached_property
    def _sentences(self) -> dict[int, list[_Sentence]]:
        return {n: list(_split(passage)) for n, passage in self._evidence.items()}

    @cached_property
    def _frequency(self) -> Counter[str]:
        return Counter(stem for sentences in self._sentences.values() for one in sentences for stem in one.stems)

    @cached_property
    def _count(self) -> int:
        return sum(len(sentences) for sentences in self._sentences.values())


def _split(passage: Evidence) -> Iterator[_Sentence]:
    for start, end in sentence_spans(passage.text) or [(0, len(passage.text))]:
        text = passage.text[start:end]
        yield _Sentence(start, end, frozenset(stems(text)), negations(text))
