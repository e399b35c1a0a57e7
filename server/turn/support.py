"""How well a statement is supported by the passages it cites, and by which of their sentences.

Cheap on purpose: it runs between two tokens of an answer. The score is the share of the statement's content, weighted
by its rarity within the evidence, that a sentence and its neighbours contain. A number that the passage does not have,
or a negation that only one side has, costs most of it. `docs/citations.md` holds the measurements behind the
constants. It compares words and can neither reason nor translate.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import regex

from server.turn.events import Evidence
from text.sentences import sentence_spans
from text.words import negations, numbers, stems

SUPPORTED = 0.45
"""A statement with at least this score counts as supported; chosen in `docs/citations.md`."""

ATTRIBUTED = 0.55
"""From this score on an uncited statement is given the passage that supports it; see `docs/citations.md`."""

_LOST_NUMBER = 0.4
_FLIPPED = 0.4
_NEIGHBOUR = 0.95
_CLAUSE = regex.compile(r"[,;:()—–،、；]|\b(?:but|however|although|unless|aber|mais|pero)\b", regex.IGNORECASE)


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
    clauses: tuple[tuple[frozenset[str], bool], ...]
    """Words of each clause, and whether it denies."""


@dataclass(frozen=True, slots=True)
class _Window:
    """A sentence with a neighbour if that helps: its score, its index, the words it holds, whether it denies."""

    score: float
    index: int
    stems: frozenset[str]
    negated: bool


class SupportScorer:
    """Scores statements against the numbered evidence of one turn; used by one thread at a time.

    The evidence is cut and stemmed here, which takes milliseconds: not on an event loop.
    """

    def __init__(self, evidence: Sequence[Evidence]) -> None:
        self._evidence = {passage.n: passage for passage in evidence}
        self._sentences = {passage.n: _cut(passage.text) for passage in evidence}
        self._numbers = {
            passage.n: numbers(" ".join((passage.title, *passage.heading, passage.text))) for passage in evidence
        }
        every = [one for sentences in self._sentences.values() for one in sentences]
        self._frequency = Counter(stem for one in every for stem in one.stems)
        self._count = len(every)

    def best(self, statement: str, cited: Iterable[int]) -> Support | None:
        """The sentence of the cited passages that supports `statement` best; None where nothing is cited."""
        found = [self._in_passage(statement, n) for n in dict.fromkeys(cited) if n in self._evidence]
        return max(found, key=lambda support: support.score, default=None)

    def score(self, statement: str, cited: Iterable[int]) -> float:
        """How well the cited passages support `statement`, one alone or the best two together, from 0 to 1."""
        known = [n for n in dict.fromkeys(cited) if n in self._evidence]
        best = self.best(statement, known)
        if best is None:
            return 0.0
        if len(known) < 2:
            return best.score
        wanted = frozenset(stems(statement))
        first, second = sorted((self._window(statement, n) for n in known), key=lambda window: -window.score)[:2]
        joint = max(first.score, _NEIGHBOUR * self._overlap(wanted, first.stems | second.stems))
        lost = numbers(statement) - set().union(*(self._numbers[n] for n in known))
        flipped = bool(negations(statement)) != (first.negated or second.negated)
        return max(best.score, _penalised(joint, lost=bool(lost), flipped=flipped))

    def matches(self, question: str, n: int) -> list[Support]:
        """Every sentence of passage `n` with how well it speaks to `question`, in reading order.

        Title and heading count half for each sentence below them; numbers and negations are not compared,
        for an answer may deny what was asked.
        """
        passage, wanted = self._evidence[n], frozenset(stems(question))
        above = frozenset(stems(" ".join((passage.title, *passage.heading))))
        found = []
        for sentence in self._sentences[n]:
            own = self._overlap(wanted, sentence.stems)
            score = (own + self._overlap(wanted, sentence.stems | above)) / 2
            quote = passage.text[sentence.start : sentence.end]
            found.append(
                Support(n, round(score, 3), quote, passage.start + sentence.start, passage.start + sentence.end)
            )
        return found

    def _in_passage(self, statement: str, n: int) -> Support:
        passage, window = self._evidence[n], self._window(statement, n)
        lost = bool(numbers(statement) - self._numbers[n])
        flipped = bool(negations(statement)) != window.negated
        score = _penalised(window.score, lost=lost, flipped=flipped)
        return self._at(self._sentences[n][window.index], passage, score)

    @staticmethod
    def _at(sentence: _Sentence, passage: Evidence, score: float) -> Support:
        quote = passage.text[sentence.start : sentence.end]
        return Support(passage.n, score, quote, passage.start + sentence.start, passage.start + sentence.end)

    def _window(self, statement: str, n: int) -> _Window:
        """The sentence of passage `n` that matches best."""
        wanted = frozenset(stems(statement))
        sentences = self._sentences[n]
        scores = [self._overlap(wanted, sentence.stems) for sentence in sentences]
        i = max(range(len(scores)), key=scores.__getitem__)
        negated = self._denies(wanted, sentences[i])
        best = _Window(scores[i], i, sentences[i].stems, negated)
        for j in (i - 1, i + 1):
            if 0 <= j < len(sentences):
                both = sentences[i].stems | sentences[j].stems
                score = _NEIGHBOUR * self._overlap(wanted, both)
                if score > best.score:
                    best = _Window(score, i, both, negated)
        return best

    def _denies(self, wanted: frozenset[str], sentence: _Sentence) -> bool:
        """Whether the clause that speaks of the same things holds a negation."""
        return max(sentence.clauses, key=lambda clause: self._overlap(wanted, clause[0]))[1]

    def _overlap(self, wanted: frozenset[str], held: frozenset[str]) -> float:
        total = sum(self._weight(stem) for stem in wanted)
        return sum(self._weight(stem) for stem in wanted & held) / total if total else 0.0

    def _weight(self, stem: str) -> float:
        return math.log(1 + self._count / (0.5 + self._frequency[stem]))


@lru_cache(512)
def _cut(passage: str) -> tuple[_Sentence, ...]:
    """The sentences of a passage, remembered: the turns of a conversation find the same passages."""
    sentences = []
    for start, end in sentence_spans(passage) or [(0, len(passage))]:
        text = passage[start:end]
        clauses = tuple((frozenset(stems(clause)), negations(clause) > 0) for clause in _CLAUSE.split(text))
        sentences.append(_Sentence(start, end, frozenset(stems(text)), clauses))
    return tuple(sentences)


def _penalised(score: float, *, lost: bool, flipped: bool) -> float:
    return round(score * (_LOST_NUMBER if lost else 1) * (_FLIPPED if flipped else 1), 3)
