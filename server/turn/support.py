"""The statements of an answer, and how well the passages they cite support or contradict them, and by which sentence.

Statements are sentences as they finish, with the evidence numbers each cites. A marker belongs to the sentence that
contains it, or to the one before it if it follows a full stop. Code blocks, headings and sentences without content
state nothing and are left out.

Scoring is cheap on purpose: it runs between two tokens of an answer. The score is the share of the statement's
content, weighted by its rarity within the evidence, that a sentence and its neighbours contain. A number that the
passage does not have, or a negation that only one side has, costs most of it. Words cannot tell the next row's number
from the right one, so a small model, where there is one, reads each statement beside the sentence that shares most
words with it, and its logit is joined with the lexical score. `papers/contradiction` trains it, and
`docs/lab/citations.md` holds the measurements behind the constants.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import regex

from server.turn.events import Evidence, SupportEvent
from text.languages import ENGLISH
from text.sentences import sentence_spans, table_rows
from text.words import negations, numbers, stems

if TYPE_CHECKING:
    from index.encoders import OnnxModel


SUPPORTED = 0.45
"""A statement with at least this score counts as supported; chosen in `docs/lab/citations.md`."""

ATTRIBUTED = 0.55
"""From this score on an uncited statement is given the passage that supports it; see `docs/lab/citations.md`."""

_LOST_NUMBER = 0.4
_FLIPPED = 0.4
_NEIGHBOUR = 0.95
_YES_NO = regex.compile(r"\W*(?:yes|no)\b(?!\s+\p{L})", regex.IGNORECASE)
_CLAUSE = regex.compile(r"[,;:()—–،、；]|\b(?:but|however|although|unless|aber|mais|pero)\b", regex.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Support:
    """The best support found: score from 0 to 1, and the evidence sentence by its offsets in the document.

    `key` is the span of the sentence that answers, where a quote holds more.
    """

    n: int
    score: float
    quote: str
    start: int
    end: int
    key: tuple[int, int] | None = None

    def overlaps(self, other: Support) -> bool:
        """Whether both have a character of a passage in common."""
        return self.n == other.n and self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class Judged:
    """A statement of an answer as words without markers, and how it was judged."""

    text: str
    event: SupportEvent


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

    The evidence is cut and stemmed here, by its language, which takes milliseconds: not on an event loop.
    """

    def __init__(self, evidence: Sequence[Evidence], language: str = ENGLISH) -> None:
        self._language = language
        self._evidence = {passage.n: passage for passage in evidence}
        self._sentences = {
            passage.n: _cut(passage.opened, language, passage.start - passage.origin) for passage in evidence
        }
        self._numbers = {
            passage.n: numbers(" ".join((passage.title, *passage.heading, passage.text))) for passage in evidence
        }
        every = [sentence for sentences in self._sentences.values() for sentence in sentences]
        self._frequency = Counter(stem for sentence in every for stem in sentence.stems)
        self._count = len(every)

    def best(self, statement: str, cited: Iterable[int]) -> Support | None:
        """The sentence of the cited passages that supports `statement` best; None where nothing is cited."""
        supports = [self._in_passage(statement, n) for n in dict.fromkeys(cited) if n in self._evidence]
        return max(supports, key=lambda support: support.score, default=None)

    def score(self, statement: str, cited: Iterable[int]) -> float:
        """How well the cited passages support `statement`, one alone or the best two together, from 0 to 1."""
        valid = [n for n in dict.fromkeys(cited) if n in self._evidence]
        best = self.best(statement, valid)
        if best is None:
            return 0.0
        if len(valid) < 2:
            return best.score
        wanted = frozenset(stems(statement, self._language))
        first, second = sorted((self._window(statement, n) for n in valid), key=lambda window: -window.score)[:2]
        joint = max(first.score, _NEIGHBOUR * self._overlap(wanted, first.stems | second.stems))
        return max(best.score, self._penalised(joint, statement, valid, denied=first.negated or second.negated))

    def holds(self, n: int) -> bool:
        """Whether passage `n` is among the evidence."""
        return n in self._evidence

    def around(self, statement: str, n: int) -> tuple[str, list[str], int]:
        """The nearest heading of passage `n`, its sentences, and the place of the one that supports `statement` best.

        Rows of tables are said with the names of their columns.
        """
        passage = self._evidence[n]
        rows = table_rows(passage.opened)
        texts = [rows.get(own.start, passage.opened[own.start : own.end]) for own in self._sentences[n]]
        heading = passage.heading[-1] if passage.heading else passage.title
        return heading, texts, self._window(statement, n).index

    def flips(self, statement: str, cited: Iterable[int]) -> bool:
        """Whether one of both alone denies: `statement`, or the cited sentence with most of its words."""
        windows = [self._window(statement, n) for n in dict.fromkeys(cited) if n in self._evidence]
        best = max(windows, key=lambda window: window.score, default=None)
        return best is not None and best.score > 0 and bool(negations(statement)) != best.negated

    def matches(self, question: str, n: int) -> list[Support]:
        """Every sentence of passage `n` with how well it speaks to `question`, in reading order.

        Title and heading count half for each sentence below them; numbers and negations are not compared,
        for an answer may deny what was asked.
        """
        passage, wanted = self._evidence[n], frozenset(stems(question, self._language))
        above = frozenset(stems(" ".join((passage.title, *passage.heading)), self._language))
        supports = []
        for sentence in self._sentences[n]:
            own = self._overlap(wanted, sentence.stems)
            score = (own + self._overlap(wanted, sentence.stems | above)) / 2
            supports.append(self._at(sentence, passage, round(score, 3)))
        return supports

    def _in_passage(self, statement: str, n: int) -> Support:
        passage, window = self._evidence[n], self._window(statement, n)
        score = self._penalised(window.score, statement, [n], denied=window.negated)
        return self._at(self._sentences[n][window.index], passage, score)

    def _penalised(self, score: float, statement: str, cited: Sequence[int], *, denied: bool) -> float:
        """The score, less where a number of the statement is in no passage, or only one side denies."""
        lost = numbers(statement) - set().union(*(self._numbers[n] for n in cited))
        flipped = bool(negations(statement)) != denied
        return round(score * (_LOST_NUMBER if lost else 1) * (_FLIPPED if flipped else 1), 3)

    @staticmethod
    def _at(sentence: _Sentence, passage: Evidence, score: float) -> Support:
        quote, origin = passage.opened[sentence.start : sentence.end], passage.origin
        return Support(passage.n, score, quote, origin + sentence.start, origin + sentence.end)

    def _window(self, statement: str, n: int) -> _Window:
        """The sentence of passage `n` that matches best."""
        wanted = frozenset(stems(statement, self._language))
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


def begins_yes_or_no(statement: str) -> bool:
    """Return whether a statement answers with *yes* or *no* before it says more."""
    return bool(_YES_NO.match(statement))


@lru_cache(512)
def _cut(passage: str, language: str, begin: int = 0) -> tuple[_Sentence, ...]:
    """The sentences of a passage from `begin` on, remembered: the turns of a conversation find the same passages."""
    sentences = []
    spans = [(max(start, begin), end) for start, end in sentence_spans(passage) if end > begin]
    for start, end in spans or [(begin, len(passage))]:
        text = passage[start:end]
        clauses = tuple((frozenset(stems(clause, language)), negations(clause) > 0) for clause in _CLAUSE.split(text))
        sentences.append(_Sentence(start, end, frozenset(stems(text, language)), clauses))
    return tuple(sentences)


_BULLET = regex.compile(r"\s*(?:[-*+>•]\s+|\d{1,3}[.)]\s+|\|\s*)*")
_UNSPACED_TERMINATORS = frozenset("。！？")
_TERMINATORS = _UNSPACED_TERMINATORS | frozenset(".!?…:;\"'”’»)*_`")


@dataclass(frozen=True, slots=True)
class Statement:
    """A finished sentence: its words without markers, its span in the answer, what it cites, its line's number."""

    text: str
    start: int
    end: int
    cited: tuple[int, ...]
    line: int


class StatementTracker:
    """Follows an answer as it is shown and gives its statements as soon as they are finished.

    Takes every shown character once, in order. The output depends only on the text.
    """

    def __init__(self) -> None:
        self._shown = 0
        self._line = 0
        self._text = ""
        self._places: list[int] = []
        self._markers: list[tuple[int, int]] = []

    @property
    def current(self) -> str:
        """The sentence being written, without markers; the one just finished where none has begun."""
        spans = sentence_spans(self._text)
        return _plain(self._text[slice(*spans[-1])]) if spans else ""

    def text(self, text: str) -> Iterator[Statement]:
        """Prose has been shown."""
        for char in text:
            if not char.isspace() and self._text.strip():
                if "\n" in self._text[len(self._text.rstrip()) :]:
                    yield from self._end_line()
                elif self._may_end():
                    yield from self._end_sentence(char)
            self._text += char
            self._places.append(self._shown)
            self._shown += 1

    def marker(self, n: int, text: str) -> None:
        """A citation marker has been shown."""
        self._markers.append((len(self._text), n))
        self._shown += len(text)

    def inserted(self, text: str) -> None:
        """Something not written by the model has been shown behind the statement given last."""
        self._shown += len(text)

    def code(self, text: str) -> Iterator[Statement]:
        """Part of a code block has been shown: it ends the sentence before it and states nothing."""
        yield from self.finish()
        self._shown += len(text)

    def finish(self) -> Iterator[Statement]:
        """The answer has ended."""
        yield from self._statements(sentence_spans(self._text))
        self._text, self._places, self._markers = "", [], []

    def _end_line(self) -> Iterator[Statement]:
        """A new line begins: a marker before its first word is the new line's, not the old one's."""
        line = self._text.rindex("\n")
        markers = [(0, n) for at, n in self._markers if at > line]
        self._markers = [(at, n) for at, n in self._markers if at <= line]
        yield from self.finish()
        self._markers = markers
        self._line += 1

    def _may_end(self) -> bool:
        if self._text[-1] in _UNSPACED_TERMINATORS:
            return True
        return self._text[-1].isspace() and self._text.rstrip()[-1:] in _TERMINATORS

    def _end_sentence(self, following: str) -> Iterator[Statement]:
        """The sentences before `following`, if it begins a new one."""
        spans = sentence_spans(self._text + following)
        if len(spans) > 1 and spans[-1][0] == len(self._text):
            yield from self._statements(spans[:-1])
            self._text, self._places, self._markers = "", [], []

    def _statements(self, spans: list[tuple[int, int]]) -> Iterator[Statement]:
        starts = [start for start, _ in spans]
        cited: dict[int, list[int]] = {}
        for at, n in self._markers:
            before = len(self._text[:at].rstrip())
            cited.setdefault(max(bisect_right(starts, before - 1) - 1, 0), []).append(n)
        for i, (start, end) in enumerate(spans):
            plain = _plain(self._text[start:end])
            numbers = tuple(dict.fromkeys(cited.get(i, ())))
            if _states_something(plain) or numbers:
                yield Statement(plain, self._places[start], self._places[end - 1] + 1, numbers, self._line)


def _plain(text: str) -> str:
    bullet = _BULLET.match(text)
    return text[bullet.end() if bullet else 0 :].strip()


def _states_something(text: str) -> bool:
    """Headings, lead-ins (`For example:`) and scraps of fewer than two content words state nothing."""
    return not text.startswith("#") and not text.endswith((":", "：")) and len(set(stems(text))) >= 2


_LINK = regex.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\s+\"[^\"]*\")?\)(?:\{[^{}\n]*\})?")
_REFERENCE = regex.compile(r"\[([^\[\]\n]+)\]\[[^\[\]\n]*\]|\{[:#.][^{}\n]*\}")
_TAG = regex.compile(r"<!--.*?-->|</?[A-Za-z][^<>\n]{0,200}>", regex.DOTALL)
_FRAME = regex.compile(
    r"^\s*(?:[-*+>•|]\s+|#{1,6}\s+|\d{1,3}[.)]\s+|(?:!!!|\?\?\?\+?|:::|///)[^\n]*|(?:```|~~~)\w*)+", regex.MULTILINE
)
_STRESS = regex.compile(r"(?<!\w)(?:\*\*|__|[*_])(?=\S)|(?<=\S)(?:\*\*|__|[*_])(?!\w)")
_ENDS = (".", "!", "?", ":", ";", "。", "！", "？")

WINDOW = 192
"""Tokens of a pair at most; of a longer one the evidence's end is not read."""
SENTENCE_CHARACTERS = 400
"""So much of the sentence that speaks of the same things is read."""
BESIDE_CHARACTERS = 120
"""So much of each sentence beside it."""
QUESTION_CHARACTERS = 160


def plain(text: str) -> str:
    """Markdown as words on one line: no links, tags, bullets or stress; code keeps its back quotes."""
    text = _LINK.sub(r"\1", _TAG.sub(" ", text))
    text = _REFERENCE.sub(lambda match: match[1] or "", text)
    return " ".join(_STRESS.sub("", _FRAME.sub("", text)).split())


def evidence_text(heading: str, sentences: Sequence[str], own: int) -> str:
    """Return the input from a passage: the nearest heading, the sentence at place `own`, and one on either side."""
    before = plain(sentences[own - 1])[-BESIDE_CHARACTERS:] if own else ""
    after = plain(sentences[own + 1])[:BESIDE_CHARACTERS] if own + 1 < len(sentences) else ""
    parts = (plain(heading), before, plain(sentences[own])[:SENTENCE_CHARACTERS], after)
    return " ".join(part if part.endswith(_ENDS) else f"{part}." for part in parts if part)


def statement_text(statement: str, question: str = "") -> str:
    """Return the model's input from an answer: the statement, behind its question if there is one."""
    request = plain(question)[-QUESTION_CHARACTERS:].rstrip(" ?.!")
    return f"{request}? {plain(statement)}" if request else plain(statement)


ONNX_FILE, DESCRIPTION = "model.onnx", "support.json"
FORMAT = 1
READINGS = 12
"""Pairs that are read of one answer at most: some 100 ms on two cores."""
CONTRADICTED = 0.9
"""From this chance on, a passage says something else; chosen in `docs/lab/citations.md`."""
BIAS, LEXICAL, READ = 0.31, 0.94, 0.69
"""Weights of the lexical score and of the log-odds of support as read; fitted in `docs/lab/citations.md`."""


@dataclass(frozen=True, slots=True)
class PairReading:
    """Chances that the evidence supports the statement, and that it says something else; 0 to 1."""

    supported: float
    contradicted: float


class PairModel:
    """A model that reads a statement beside evidence; safe to use from several threads at once.

    `folder` holds what it learned, and `base` the cross-encoder whose lower layers it was trained from, and reads its
    other weights from. Raises ModelUnavailable where `base` is another one, or a file is missing or damaged.
    """

    def __init__(self, folder: Path, base: Path) -> None:
        from index.encoders import OnnxModel
        from index.errors import ModelUnavailable
        from index.rerank import demand_base

        path = folder / DESCRIPTION
        try:
            described = json.loads(path.read_text("utf-8"))
            if described["format"] != FORMAT:
                raise ModelUnavailable(
                    f"{path} has format {described['format']!r}; this version reads format {FORMAT}."
                )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelUnavailable(f"{path} cannot be read ({error!r}): install Anaphora again.") from error
        demand_base(folder, described, base)
        self._model: OnnxModel = OnnxModel(folder / ONNX_FILE, base / "tokenizer.json", WINDOW, base)

    def read(self, statement: str, evidence: str) -> PairReading:
        """Score one pair, each side as `statement_text` and `evidence_text` make it."""
        [encoding] = self._model.tokenize([(statement, evidence)])
        logits = [float(logit) for logit in self._model.run(encoding)[0]]
        odds = [math.exp(logit - max(logits)) for logit in logits]
        return PairReading(odds[0] / sum(odds), odds[1] / sum(odds))


def verify(
    statements: Sequence[Judged], scorer: SupportScorer, model: PairModel, question: str = ""
) -> list[SupportEvent]:
    """Judge statements by reading them, at most `READINGS` pairs; blocks. Return the events that changed.

    `question` is the one that is answered, in full. The events keep their offsets: each replaces the one before for the
    same statement.
    """
    changed, left = list[SupportEvent](), READINGS
    for judged in statements:
        event = judged.event
        cited = [n for n in event.cited if scorer.holds(n)]
        if not cited or left < len(cited) or not is_read(judged.text, scorer, cited):
            continue
        left -= len(cited)
        readings = [read_beside(model, scorer, judged.text, question, n) for n in cited]
        score, contradicted = joined(event.score, readings)
        if (score, contradicted) != (event.score, event.contradicted):
            supported = score >= SUPPORTED and not contradicted
            changed.append(
                event.model_copy(update={"score": score, "supported": supported, "contradicted": contradicted})
            )
    return changed


def is_read(statement: str, scorer: SupportScorer, cited: Sequence[int]) -> bool:
    """Return whether the model is asked: not where a cited passage holds the sentence word for word.

    Nor where it begins with *yes* or *no*: the model is wrong about these more often than words are.
    """
    stated = plain(statement).rstrip(".")
    held = (text for n in cited for text in scorer.around(statement, n)[1])
    return not begins_yes_or_no(statement) and all(plain(text).rstrip(".") != stated for text in held)


def read_beside(model: PairModel, scorer: SupportScorer, statement: str, question: str, n: int) -> PairReading:
    """Read a statement beside passage `n`."""
    return model.read(statement_text(statement, question), evidence_text(*scorer.around(statement, n)))


def joined(score: float, readings: Sequence[PairReading]) -> tuple[float, bool]:
    """Return the lexical score and the readings of each cited passage as one score, and whether it is contradicted.

    Passages support a statement together, so the best reading counts; it is contradicted where no passage supports it
    and the best one says something else.
    """
    best = best_reading(readings)
    chance = 1 / (1 + math.exp(-(BIAS + LEXICAL * score + READ * log_odds(best.supported))))
    return round(chance, 3), best.contradicted >= CONTRADICTED and chance < SUPPORTED


def best_reading(readings: Sequence[PairReading]) -> PairReading:
    """The reading that speaks most for the statement."""
    return max(readings, key=lambda reading: reading.supported - reading.contradicted)


def log_odds(chance: float) -> float:
    """The logit of a chance, bounded."""
    return math.log(max(chance, 1e-4) / max(1 - chance, 1e-4))
