"""Headers of passages in an answer: small models copy the line a passage begins with, which says nothing."""

from __future__ import annotations

from collections.abc import Sequence

import regex

from server.turn.citations import escape_citations
from server.turn.events import Evidence
from text.escape import escape

SEPARATOR = " › "


def header(passage: Evidence) -> str:
    """What stands above a passage where a model reads it, without its number: title and heading path, escaped."""
    parts = (passage.title, *passage.heading)
    return escape_citations(escape(SEPARATOR.join(" ".join(part.split()) for part in parts if part.strip())))


class HeaderFilter:
    """Takes an answer as it streams and leaves out the lines that are a passage's header behind its number.

    Without the number it may be an answer: the title of a page is what some ask for. Only what may become such a line
    waits. What comes out, joined, does not depend on where the text was cut.
    """

    def __init__(self, evidence: Sequence[Evidence]) -> None:
        found = sorted({header(passage) for passage in evidence} - {""})
        lines = "|".join(regex.escape(one) for one in found)
        self._line = regex.compile(rf"[ \t]*\[\d{{1,3}}\][ \t]*(?:{lines})[ \t]*\n") if found else None
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
