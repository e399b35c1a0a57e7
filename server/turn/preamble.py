"""The first words of an answer, where small models talk about the passages before they talk about the matter.

Asked whether the passages state the answer (which makes them refuse far more honestly), they like to say so:
"Yes, the passages state the answer to this question." Such a sentence is cut. Its opposite, "The passages do not
contain …", is a refusal in other words and is taken for one. So is a sentence that the instructions gave as an
example, said as if the passages had it. Only the beginning of an answer is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

import regex

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
_DENIES = regex.compile(
    rf"\W{{0,8}}(?:(?:no|sorry|unfortunately)\b[,.;:!]?\s*)?(?:there\s+is\s+no\s+(?:answer|information|mention)\b{_REST}\bin\s+(?:{_PASSAGES})\b"
    rf"|none\s+of\s+(?:{_PASSAGES})\b|(?:{_PASSAGES})\s+(?:do(?:es)?\s+not|don['’]t|doesn['’]t|did\s+not)\s+"
    rf"(?:(?:directly|explicitly|actually|specifically)\s+)?{_SAYS}\b)",
    regex.IGNORECASE,
)


class PreambleFilter:
    """Takes the beginning of a streamed answer and passes the rest on; only what may be such a sentence waits.

    What comes out, joined, does not depend on where the text was cut. `echoes` are sentences that no answer to this
    question can be.
    """

    def __init__(self, echoes: Sequence[str] = ()) -> None:
        said = "|".join(regex.escape(echo) for echo in echoes)
        denials = [_DENIES, regex.compile(rf"[\W\d]{{0,8}}(?:{said})", regex.IGNORECASE)] if echoes else [_DENIES]
        self._denials = tuple(denials)
        self._held = ""
        self._decided = False
        self.refused = False
        """Whether the answer begins with a denial that the passages have it, or an echo; nothing comes out then."""

    def feed(self, text: str) -> str:
        """Take the next piece in; what can be shown comes out."""
        shown = []
        for char in text:
            if self._decided:
                shown.append("" if self.refused else char)
            else:
                self._held += char
                shown.append(self._decide())
        return "".join(shown)

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
