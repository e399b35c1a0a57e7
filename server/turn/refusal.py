"""The refusal token, kept from the user's eyes while an answer streams.

A model is told to write `<cannot_answer>` when the evidence lacks the answer. Models write it with other
brackets or none, in any case, in bold, in quotes, with a blank for the underscore. `RefusalFilter` removes
every such form and holds back only the characters that could still become one. What is said to the user
instead is decided by its caller.
"""

from __future__ import annotations

import regex

REFUSAL_TOKEN = "<cannot_answer>"

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


class RefusalFilter:
    """Removes refusal tokens from a streamed text.

    What comes out, joined, depends on what went in, joined, and not on where it was cut. The words
    `cannot answer` are ordinary prose and pass, unless they stand in angle or square brackets or are
    the whole text.
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
        shown = ""
        while match := _TOKEN.search(self._last + self._held, pos=len(self._last)):
            shown += self._cut(match.start(), match.end())
        if half := _HALF.search(self._held):
            self.found |= "cannot" in half.group().lower()
            self._held = self._held[: half.start()]
        shown, self._held = shown + self._held, ""
        return shown

    def _step(self, char: str) -> str:
        self._held += char
        if self._at_start:
            if _ALONE.fullmatch(self._held, partial=True):
                return ""
            self._at_start = False
        shown = ""
        while self._held:
            text, offset = self._last + self._held, len(self._last)
            match = _TOKEN.search(text, pos=offset, partial=True)
            if match is None or match.start() == len(text):
                return shown + self._release(len(self._held))
            if match.partial or _TOKEN.fullmatch(text, pos=match.start(), partial=True):
                return shown + self._release(match.start() - offset)
            shown += self._cut(match.start(), match.end())
        return shown

    def _release(self, length: int) -> str:
        shown, self._held = self._held[:length], self._held[length:]
        self._last = shown[-1:] or self._last
        return shown

    def _cut(self, start: int, end: int) -> str:
        """Release what precedes a token at `start` to `end` of last + held, and drop the token."""
        offset = len(self._last)
        shown, self._held = self._held[: start - offset], self._held[end - offset :]
        self._last = shown[-1:] or self._last
        self.found = True
        return shown
