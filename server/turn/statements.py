"""The statements of an answer: its sentences as they finish, with the evidence numbers each cites.

A marker belongs to the sentence it stands in, or to the one before it where it follows a full stop. Code
blocks, headings and sentences without content state nothing and are left out. Whether a statement is
supported is decided elsewhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import regex

from text.sentences import sentence_spans
from text.words import stems

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

    Takes every shown character once, in order. What comes out depends only on the text.
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

    def marker(self, n: int, shown: str) -> None:
        """A citation marker has been shown."""
        self._markers.append((len(self._text), n))
        self._shown += len(shown)

    def inserted(self, shown: str) -> None:
        """Something not written by the model has been shown behind the statement given last."""
        self._shown += len(shown)

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
        kept = [(0, n) for at, n in self._markers if at > line]
        self._markers = [(at, n) for at, n in self._markers if at <= line]
        yield from self.finish()
        self._markers = kept
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
