"""The grammar of what a model writes: citation markers, and what users must not see of it, filtered while it streams.

`CitationParser` turns a stream of characters into pieces: plain text, and markers that cite numbered
evidence. It reads `[1]`, `[1, 2]`, `[1-3]`, `[1][2]`, `【1】` and `[passage 1]`, shows each as `[n]`, and
drops numbers that are not in the evidence together with the blank before them. Code, Markdown links and
array indexes pass untouched, and so does `(1)`, which numbers lists more often than it cites. Which sentence
a marker supports is decided elsewhere.

`escape_citations` rewrites whatever has the shape of a marker in a document, so that a model which copies it
cites nothing.

Four filters pass on what can be shown, holding back only what may still become what they look for. Their joined output
depends on the joined input, not on where it was cut; their caller chooses the text for the user instead.

- `ThoughtFilter`: models that think first write `<think>…</think>`, where their server does not keep it apart.
- `RefusalFilter`: a model is instructed to write `<cannot_answer>` when the evidence lacks the answer. Models write it
  with other brackets or none, in any case, in bold, in quotes, with a blank for the underscore.
- `DenialFilter`: "The passages do not contain …" is a refusal in other words. So is a sentence that the instructions
  gave as an example.
- `HeaderFilter`: small models copy the line a passage begins with, which says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

import regex

from server.turn.events import Evidence
from text.sanitize import escape

_ITEM = r"(?:(?:passage|source|document|doc|evidence)s?[ ]?)?[#^]?\d{1,3}"
_INNER = rf"[ ]?{_ITEM}(?:[ ]?(?:,|;|&|and|-|–|—|to)[ ]?{_ITEM}){{0,19}}"
_MARKER = regex.compile(rf"\[{_INNER}[ ]?\]|【{_INNER}(?:†[^】\n]{{0,40}})?[ ]?】", regex.IGNORECASE)
_RANGE = regex.compile(r"(\d{1,3})[ ]?(?:-|–|—|to)[ ]?\D{0,12}?(\d{1,3})|(\d{1,3})", regex.IGNORECASE)
_WORDLIKE = regex.compile(r"[\p{Latin}\p{Cyrillic}\p{Greek}\p{N}_\]]\Z")
_PLAIN_WORD = regex.compile(r"(?<![\p{L}\p{N}_.])\p{L}{2,}\Z")
_ENDS_CLAUSE = frozenset(".,;:!?。，；：！？\n[【")
_BEFORE = regex.compile(r"[\p{L}\p{N}_][\p{L}\p{N}_.()\[\]'\"=,]{0,39}\Z")
"""What a marker is written onto, as far as an expression reaches."""

# In documents: any blanks and any brackets, for a model may write a full-width one as an ordinary one.
_SHAPE = regex.compile(
    rf"[\[［【〔]\s*({_ITEM}(?:\s*(?:,|;|&|and|-|–|—|to)\s*{_ITEM})*)\s*(?:†[^】\n]{{0,200}})?[\]］】〕]".replace(
        "[ ]?", r"\s*"
    ),
    regex.IGNORECASE,
)
_CODE = regex.compile(
    r"^[ ]{0,3}(`{3,}|~{3,}).*?(?:^[ ]{0,3}\1|\Z)|(?<!`)(`+)(?!`)(?:(?!\n\s*\n).)+?(?<!`)\2(?!`)",
    regex.MULTILINE | regex.DOTALL,
)
_INDEXED_IN_CODE = regex.compile(r"[\p{L}\p{N}_\])=(,]\Z")
# As in `_WORDLIKE`: after a letter of other scripts the parser takes brackets for a citation.
_INDEXED_IN_PROSE = regex.compile(r"[\p{Latin}\p{Cyrillic}\p{Greek}\p{N}_]\Z")


@dataclass(frozen=True, slots=True)
class Marker:
    """A citation of evidence number `n`, shown as `text` (`[n]`)."""

    n: int
    text: str


def reading_numbers(cited: Iterable[int], known: Iterable[int]) -> dict[int, int]:
    """Return the number that a person reads for each passage of `known`: from 1, in the order they are first `cited`.

    Those that are not cited follow in their own order. Programs are given the numbers of the evidence.
    """
    order = list(dict.fromkeys((*cited, *sorted(known))))
    return {n: number for number, n in enumerate(order, start=1)}


def escape_citations(text: str) -> str:
    """`text` of a document with round brackets in place of those of everything that could be read as a citation.

    Only indexes stay: `items[2]` in code, and what is no plain word outside of it (`a[1]`, `x.y[0]`), which no
    answer cites with.
    """
    escaped, at = "", 0
    for code in _CODE.finditer(text):
        escaped += _escape(text[at : code.start()], _index_in_prose) + _escape(code.group(), _INDEXED_IN_CODE.search)
        at = code.end()
    return escaped + _escape(text[at:], _index_in_prose)


def _escape(text: str, index: Callable[[str], object]) -> str:
    def replaced(match: regex.Match[str]) -> str:
        indexed = match[0][0] == "[" and index(text[max(match.start() - 40, 0) : match.start()])
        return match[0] if indexed else f"({match[1]})"

    return str(_SHAPE.sub(replaced, text))


def _index_in_prose(before: str) -> bool:
    return bool(_INDEXED_IN_PROSE.search(before)) and not _PLAIN_WORD.search(before)


class CitationParser:
    """Reads characters, gives text pieces (`str`) and `Marker`s in order.

    The output depends on the whole text, not on where the stream was cut. `valid` tells which numbers are in the
    evidence; `dropped` counts the ones that were not. `quoted` tells whether words occur verbatim in the evidence: a
    copied index such as `items[2]` cites nothing.
    """

    def __init__(self, valid: Container[int], quoted: Callable[[str], bool] = lambda _: False) -> None:
        self._valid = valid
        self._quoted = quoted
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
        """Whether the next character is in a code fence."""
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
        if self._held.strip() and _MARKER.fullmatch(self._held.lstrip() + char, partial=True) is None:
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

    def _decide(self, following: str) -> Iterator[str | Marker]:
        """A bracket that looks like a marker has closed, and this character follows it."""
        held, self._held, self._closed = self._held, "", False
        marker = held.lstrip()
        blank = held[: len(held) - len(marker)]
        written_on = not blank and not self._after_marker
        # A word, or the end of an expression that a `[1]` could index.
        attached = written_on and marker[0] == "[" and _WORDLIKE.search(self._recent)
        numbers = list(_numbers(marker))
        before = _BEFORE.search(self._recent) if written_on else None
        copied = before is not None and self._quoted(before.group() + marker)
        if following == "(" or copied or (attached and not self._cites_after_word(numbers, following)):
            yield self._say(held)
            return
        self._after_marker = True
        valid = [n for n in dict.fromkeys(numbers) if n in self._valid]
        self.dropped += len({n for n in numbers if n not in self._valid})
        if not valid:
            return
        if blank:
            yield self._say(blank)
        for n in valid:
            yield Marker(n, self._say(f"[{n}]"))
        self._after_marker = True

    def _cites_after_word(self, numbers: list[int], following: str) -> bool:
        """Whether a marker written onto a word (`works[1].`) is a citation and not an index (`a[1]`, `items[9]`)."""
        valid = all(n in self._valid for n in numbers)
        return valid and following in _ENDS_CLAUSE and bool(_PLAIN_WORD.search(self._recent))

    def _at_line_start(self) -> bool:
        return _begins_line(self._recent) and not self._held.strip()

    def _end_run(self) -> None:
        """A run of fence characters has ended: it opens or closes code, or is literal."""
        run = self._recent[-self._ticks :]
        at_line_start = _begins_line(self._recent[: -self._ticks])
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

    def _say(self, text: str) -> str:
        self._after_marker = False
        self._recent = (self._recent + text)[-200:]
        return text


def _begins_line(before: str) -> bool:
    """Whether a fence may follow: as in Markdown, three blanks may stand before it."""
    line = before.rpartition("\n")[2]
    return not line.strip() and len(line) <= 3


def _numbers(marker: str) -> Iterator[int]:
    """The numbers a marker names, ranges spelt out (a range over more than 20 names its two ends)."""
    for first, last, single in _RANGE.findall(marker):
        if single:
            yield int(single)
        elif 0 <= int(last) - int(first) <= 20:
            yield from range(int(first), int(last) + 1)
        else:
            yield from (int(first), int(last))


_DECORATION = r"[*_`\"'“”‘’~\\]{0,4}"
_OPEN = r"(?:<|\[|\(|\{|&lt;)[ \t]{0,4}/?[ \t]{0,4}"
_CLOSE = r"(?:[ \t]{0,4}/?[ \t]{0,4}(?:>|\]|\)|\}|&gt;))?"
_END = rf"{_CLOSE}{_DECORATION}[.!。]?{_DECORATION}"
_TOKEN = regex.compile(
    rf"\s{{0,16}}{_DECORATION}(?:"
    rf"(?:{_OPEN})?(?:cannot[ ]?\\?_+[ ]?answer)+"
    rf"|(?:<|\[|&lt;)[ \t]{{0,4}}/?[ \t]{{0,4}}cannot[ \t_\\-]{{0,4}}answer"
    rf"){_END}",
    regex.IGNORECASE,
)
_HALF = regex.compile(
    rf"\s{{0,16}}{_DECORATION}(?:(?:<|\[|&lt;)[ \t]{{0,4}}/?[ \t]{{0,4}}c[\w\\ ]*|(?:{_OPEN})?cannot[ ]?\\?_\w*)\Z",
    regex.IGNORECASE,
)
_ALONE = regex.compile(rf"\s{{0,16}}{_DECORATION}cannot[ \t]{{1,4}}answer{_END}\s{{0,16}}", regex.IGNORECASE)


class ThoughtFilter:
    """Leaves out what stands between `<think>` and `</think>` at the beginning; without an end, all of it."""

    def __init__(self) -> None:
        self._held = ""
        self._over = False

    def feed(self, text: str) -> str:
        """Take the next piece in; what is no thought comes out."""
        if self._over:
            return text
        self._held += text
        begun = self._held.lstrip()
        thought, ended, answer = begun.partition("</think>")
        if not ended and (begun.startswith("<think>") or "<think>".startswith(begun)):
            return ""
        self._over = True
        return answer if thought.startswith("<think>") else self._held

    def finish(self) -> str:
        """The text has ended: what was no thought after all comes out."""
        return "" if self._over or self._held.lstrip().startswith("<think>") else self._held


class RefusalFilter:
    """Removes refusal tokens from a streamed text.

    The joined output depends on the joined input, not on where it was cut. The words `cannot answer` are ordinary prose
    and pass, unless they are in angle or square brackets or are the whole text.
    """

    def __init__(self) -> None:
        self._held = ""
        self._last = ""
        self._at_start = True
        self.found = False
        """Whether a refusal token has been removed."""

    def feed(self, text: str) -> str:
        """Take the next piece in; what can safely be shown comes out."""
        return "".join(self._step(char) for char in text)

    def finish(self) -> str:
        """The text has ended: what was held back comes out, except a token or the beginning of one."""
        if self._at_start and _ALONE.fullmatch(self._held):
            self.found, self._held = True, ""
            return ""
        released = ""
        while match := _TOKEN.search(self._last + self._held, pos=len(self._last)):
            released += self._cut(match.start(), match.end())
        if half := _HALF.search(self._held):
            self.found |= "cannot" in half.group().lower()
            self._held = self._held[: half.start()]
        released, self._held = released + self._held, ""
        return released

    def _step(self, char: str) -> str:
        self._held += char
        if self._at_start:
            if _ALONE.fullmatch(self._held, partial=True):
                return ""
            self._at_start = False
        released = ""
        while self._held:
            text, offset = self._last + self._held, len(self._last)
            match = _TOKEN.search(text, pos=offset, partial=True)
            if match is None or match.start() == len(text):
                return released + self._release(len(self._held))
            if match.partial or _TOKEN.fullmatch(text, pos=match.start(), partial=True):
                return released + self._release(match.start() - offset)
            released += self._cut(match.start(), match.end())
        return released

    def _release(self, length: int) -> str:
        released, self._held = self._held[:length], self._held[length:]
        self._last = released[-1:] or self._last
        return released

    def _cut(self, start: int, end: int) -> str:
        """Release what precedes a token at `start` to `end` of last + held, and drop the token."""
        released = self._release(start - len(self._last))
        self._held = self._held[end - start :]
        self.found = True
        return released


_PASSAGES = (
    r"(?:(?:the|these|your)\s+)?(?:(?:provided|given|numbered)\s+)?passages?"
    r"|(?:(?:the|these|your)\s+)?(?:provided|given)\s+(?:documents?|texts?|evidence|sources?|context|information)"
)
_SAYS = (
    r"(?:states?|contains?|answers?|provides?|mentions?|includes?|tells?|says?|gives?|specif(?:y|ies)|address(?:es)?)"
)
_REST = r"[^.:!?\n\[]{0,160}"
# What only one turn knows goes into a named list: regex keeps hundreds of the patterns that it has compiled.
_ECHO = r"[\W\d]{0,8}\L<echoes>"
_HEADER = r"[ \t]*\[\d{1,3}\][ \t]*\L<headers>[ \t]*\n"
_DENIES = regex.compile(
    rf"\W{{0,8}}(?:(?:no|sorry|unfortunately)\b[,.;:!]?\s*)?(?:there\s+is\s+no\s+(?:answer|information|mention)\b{_REST}\bin\s+(?:{_PASSAGES})\b"
    rf"|none\s+of\s+(?:{_PASSAGES})\b|(?:{_PASSAGES})\s+(?:do(?:es)?\s+not|don['’]t|doesn['’]t|did\s+not)\s+"
    rf"(?:(?:directly|explicitly|actually|specifically)\s+)?{_SAYS}\b)",
    regex.IGNORECASE,
)


class DenialFilter:
    """Takes the beginning of a streamed answer and passes the rest on; only what may be a denial waits.

    The joined output does not depend on where the text was cut. `echoes` are sentences that no answer to this question
    can be.
    """

    def __init__(self, echoes: Sequence[str] = ()) -> None:
        patterns = [regex.compile(_ECHO, regex.IGNORECASE, cache_pattern=False, echoes=echoes)] if echoes else []
        self._denials = (_DENIES, *patterns)
        self._held = ""
        self._passed = False
        self.refused = False
        """Whether the answer begins with a denial that the passages have it, or an echo; nothing comes out then."""

    def feed(self, text: str) -> str:
        """Take the next piece in; what can be shown comes out."""
        return "".join(map(self._take, text))

    def finish(self) -> str:
        """The text has ended: what was held back comes out."""
        held, self._held = self._held, ""
        return held

    def _take(self, char: str) -> str:
        if self._passed or self.refused:
            return char if self._passed else ""
        self._held += char
        if any(pattern.match(self._held) for pattern in self._denials):
            self.refused, self._held = True, ""
        elif not any(pattern.fullmatch(self._held, partial=True) for pattern in self._denials):
            self._passed = True
            return self.finish()
        return ""


class HeaderFilter:
    """Takes an answer as it streams and leaves out the lines that are a passage's header behind its number.

    Without the number it may be an answer: the title of a page is what some ask for. Only what may become such a line
    waits. The joined output does not depend on where the text was cut.
    """

    def __init__(self, evidence: Sequence[Evidence]) -> None:
        headers = sorted({header(passage) for passage in evidence} - {""})
        self._line = regex.compile(_HEADER, cache_pattern=False, headers=headers) if headers else None
        self._held = ""
        self._at_start = True

    def feed(self, text: str) -> str:
        """Take the next piece in; what can be shown comes out."""
        return text if self._line is None else "".join(map(self._take, text))

    def finish(self) -> str:
        """The text has ended: what was held back comes out, unless it is a header."""
        held, self._held = self._held, ""
        return "" if held and self._line is not None and self._line.fullmatch(held + "\n") else held

    def _take(self, char: str) -> str:
        assert self._line is not None
        if not self._at_start:
            self._at_start = char == "\n"
            return char
        self._held += char
        if self._line.fullmatch(self._held):
            self._held = ""
        elif not self._line.fullmatch(self._held, partial=True):
            held, self._held = self._held, ""
            self._at_start = char == "\n"
            return held
        return ""


def header(passage: Evidence) -> str:
    """Return the header above a passage for a model, without its number: title and heading path, escaped."""
    parts = (passage.title, *passage.heading)
    return escape_citations(escape(" › ".join(" ".join(part.split()) for part in parts if part.strip())))
