"""Stream filters for model output that users must not see: thoughts, the refusal token, talk about the passages, copies
of their headers.

Four filters, each of which takes an answer as it streams and passes on what can be shown, holding back only what may
still become what it looks for. The joined output depends on the joined input, not on where it was cut.

- `ThoughtFilter`: models that think first write `<think>…</think>`, where their server does not keep it apart.
- `RefusalFilter`: a model is instructed to write `<cannot_answer>` when the evidence lacks the answer. Models write it
with
  other brackets or none, in any case, in bold, in quotes, with a blank for the underscore.
- `PreambleFilter`: asked whether the passages state the answer (which makes them refuse far more honestly), small
  models like to say so: "Yes, the passages state the answer to this question." Such a sentence is cut. Its opposite,
  "The passages do not contain …", is a refusal in other words. So is a sentence that the instructions gave as an
  example.
- `HeaderFilter`: small models copy the line a passage begins with, which says nothing.

Their caller chooses the text for the user instead.
"""

from __future__ import annotations

from collections.abc import Sequence

import regex

from server.turn.events import Evidence
from server.turn.prompt import header

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
        offset = len(self._last)
        released, self._held = self._held[: start - offset], self._held[end - offset :]
        self._last = released[-1:] or self._last
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
_AFFIRMS = regex.compile(
    rf"\W{{0,8}}(?:yes\b[,.;:!]?\s*)?(?:{_PASSAGES})\s+(?:do(?:es)?\s+)?{_SAYS}\s+(?:the|an|this|that)\s+answer{_REST}[.:!]\s*",
    regex.IGNORECASE,
)
# What only one turn knows goes into a named list: regex keeps hundreds of the patterns that it has compiled.
_ECHO = r"[\W\d]{0,8}\L<echoes>"
_HEADER = r"[ \t]*\[\d{1,3}\][ \t]*\L<headers>[ \t]*\n"
_DENIES = regex.compile(
    rf"\W{{0,8}}(?:(?:no|sorry|unfortunately)\b[,.;:!]?\s*)?(?:there\s+is\s+no\s+(?:answer|information|mention)\b{_REST}\bin\s+(?:{_PASSAGES})\b"
    rf"|none\s+of\s+(?:{_PASSAGES})\b|(?:{_PASSAGES})\s+(?:do(?:es)?\s+not|don['’]t|doesn['’]t|did\s+not)\s+"
    rf"(?:(?:directly|explicitly|actually|specifically)\s+)?{_SAYS}\b)",
    regex.IGNORECASE,
)


class PreambleFilter:
    """Takes the beginning of a streamed answer and passes the rest on; only what may be such a sentence waits.

    The joined output does not depend on where the text was cut. `echoes` are sentences that no answer to this question
    can be.
    """

    def __init__(self, echoes: Sequence[str] = ()) -> None:
        patterns = [regex.compile(_ECHO, regex.IGNORECASE, cache_pattern=False, echoes=echoes)] if echoes else []
        self._denials = (_DENIES, *patterns)
        self._held = ""
        self._decided = False
        self.refused = False
        """Whether the answer begins with a denial that the passages have it, or an echo; nothing comes out then."""

    def feed(self, text: str) -> str:
        """Take the next piece in; what can be shown comes out."""
        released = []
        for char in text:
            if self._decided:
                released.append("" if self.refused else char)
            else:
                self._held += char
                released.append(self._decide())
        return "".join(released)

    def finish(self) -> str:
        """The text has ended: what was held back comes out, unless it is such a sentence."""
        if self._decided:
            return ""
        self._decided = True
        held, self._held = self._held, ""
        if self._denied(held):
            self.refused = True
            return ""
        return held

    def _decide(self) -> str:
        if self._denied(self._held):
            self._decided = self.refused = True
            return ""
        if (match := _AFFIRMS.match(self._held)) and match.end() < len(self._held):
            self._decided = True
            return self._held[match.end() :]
        if any(pattern.fullmatch(self._held, partial=True) for pattern in (_AFFIRMS, *self._denials)):
            return ""
        self._decided = True
        return self._held

    def _denied(self, held: str) -> bool:
        return any(pattern.match(held) for pattern in self._denials)


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
