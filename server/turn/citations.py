"""Citation markers, checked while an answer streams.

`CitationParser` turns a stream of characters into pieces: plain text, and markers that cite numbered
evidence. It reads `[1]`, `[1, 2]`, `[1-3]`, `[1][2]`, `【1】` and `[passage 1]`, shows each as `[n]`, and
drops numbers that are not in the evidence together with the blank before them. Code, Markdown links and
array indexes pass untouched, and so does `(1)`, which numbers lists more often than it cites. Which sentence
a marker supports is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

import regex

_ITEM = r"(?:(?:passage|source|document|doc|evidence)s?[ ]?)?[#^]?\d{1,3}"
_INNER = rf"[ ]?{_ITEM}(?:[ ]?(?:,|;|&|and|-|–|—|to)[ ]?{_ITEM}){{0,19}}"
_MARKER = regex.compile(rf"\[{_INNER}[ ]?\]|【{_INNER}(?:†[^】\n]{{0,40}})?[ ]?】", regex.IGNORECASE)
_RANGE = regex.compile(r"(\d{1,3})[ ]?(?:-|–|—|to)[ ]?\D{0,12}?(\d{1,3})|(\d{1,3})", regex.IGNORECASE)
_WORDLIKE = regex.compile(r"[\p{Latin}\p{Cyrillic}\p{Greek}\p{N}_\]]\Z")
_PLAIN_WORD = regex.compile(r"(?<![\p{L}\p{N}_.])\p{L}{2,}\Z")
_ENDS_CLAUSE = frozenset(".,;:!?。，；：！？\n[【")


@dataclass(frozen=True, slots=True)
class Marker:
    """A citation of evidence number `n`, shown as `text` (`[n]`)."""

    n: int
    text: str


class CitationParser:
    """Reads characters, gives text pieces (`str`) and `Marker`s in order.

    What comes out depends on the whole text, not on where the stream was cut. `valid` tells which numbers
    are in the evidence; `dropped` counts the ones that were not.
    """

    def __init__(self, valid: Container[int]) -> None:
        self._valid = valid
        self._held = ""
        self._closed = False
        self._recent = ""
        self._ticks = 0
        self._fence = ""
        self._inline = 0
        self._in_target = False
        self._after_marker = False
        self.dropped = 0

    def feed(self, text: str) -> Iterator[str | Marker]:
        """Take the next piece in; pieces that are decided come out."""
        for char in text:
            yield from self._step(char)

    def finish(self) -> Iterator[str | Marker]:
        """The text has ended: what was held back comes out."""
        if self._closed:
            yield from self._decide("\n")
        yield from self._release()

    @property
    def in_code(self) -> bool:
        """Whether what comes next stands in a code fence."""
        return bool(self._fence)

    def _step(self, char: str) -> Iterator[str | Marker]:
        if self._closed:
            yield from self._decide(char)
        if char != "`" and char != "~" and self._ticks:
            self._end_run()
        if char in "`~" and (char == "`" or self._at_line_start() or self._ticks):
            yield from self._release()
            self._ticks += 1
            yield self._say(char)
            return
        if self._fence or self._inline or self._in_target:
            if char == "\n":
                self._in_target = False
                if self._recent.endswith("\n"):
                    self._inline = 0
            elif char == ")":
                self._in_target = False
            yield self._say(char)
            return
        if self._held.strip() and not self._may_be_marker(char):
            yield from self._release()
        if self._held.strip():
            self._held += char
            self._closed = char in "]】"
        elif char in "[【" or (char == " " and len(self._held) < 8):
            self._held += char
        else:
            yield from self._release()
            self._in_target = char == "(" and self._recent.endswith("]")
            yield self._say(char)

    def _may_be_marker(self, char: str) -> bool:
        return _MARKER.fullmatch(self._held.lstrip() + char, partial=True) is not None

    def _decide(self, following: str) -> Iterator[str | Marker]:
        """A bracket that looks like a marker has closed, and this character follows it."""
        held, self._held, self._closed = self._held, "", False
        marker = held.lstrip()
        blank = held[: len(held) - len(marker)]
        attached = not blank and marker[0] == "[" and not self._after_marker and self._continues_word()
        numbers = list(_numbers(marker))
        if following == "(" or (attached and not self._cites_after_word(numbers, following)):
            yield self._say(held)
            return
        self._after_marker = True
        known = [n for n in dict.fromkeys(numbers) if n in self._valid]
        self.dropped += len({n for n in numbers if n not in self._valid})
        if not known:
            return
        if blank:
            yield self._say(blank)
        for n in known:
            yield Marker(n, self._say(f"[{n}]"))
        self._after_marker = True

    def _cites_after_word(self, numbers: list[int], following: str) -> bool:
        """Whether a marker written onto a word (`works[1].`) is a citation and not an index (`a[1]`, `items[9]`)."""
        known = all(n in self._valid for n in numbers)
        return known and following in _ENDS_CLAUSE and bool(_PLAIN_WORD.search(self._recent))

    def _at_line_start(self) -> bool:
        line = self._recent.rpartition("\n")[2]
        return not line.strip() and len(line) <= 3 and not self._held.strip()

    def _end_run(self) -> None:
        """A run of fence characters has ended: it opens or closes code, or is literal."""
        run = self._recent[-self._ticks :]
        line = self._recent[: -self._ticks].rpartition("\n")[2]
        at_line_start = not line.strip() and len(line) <= 3
        self._ticks = 0
        if self._fence:
            if at_line_start and run[0] == self._fence[0] and len(run) >= len(self._fence):
                self._fence = ""
        elif self._inline:
            if run[0] == "`" and len(run) == self._inline:
                self._inline = 0
        elif at_line_start and len(run) >= 3:
            self._fence = run
        elif run[0] == "`":
            self._inline = len(run)

    def _release(self) -> Iterator[str]:
        if self._held:
            held, self._held, self._closed = self._held, "", False
            yield self._say(held)

    def _continues_word(self) -> bool:
        """Whether what was shown last is a word, or the end of an expression that a `[1]` could index."""
        return bool(_WORDLIKE.search(self._recent))

    def _say(self, text: str) -> str:
        self._after_marker = False
        self._recent = (self._recent + text)[-200:]
        return text


def _numbers(marker: str) -> Iterator[int]:
    """The numbers a marker names, ranges spelt out (a range over more than 20 names its two ends)."""
    for first, last, single in _RANGE.findall(marker):
        if single:
            yield int(single)
        elif 0 <= int(last) - int(first) <= 20:
            yield from range(int(first), int(last) + 1)
        else:
            yield from (int(first), int(last))
