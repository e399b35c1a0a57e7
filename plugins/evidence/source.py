"""A document as it is read for one sentence that cites it: its sentences and its lead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import regex

from index.documents import Document, Section
from server.turn.events import Evidence
from text.sentences import blocks, sentence_spans, sentences
from text.words import stems

LEAD_CHARS = 1200
"""Longest lead; what is longer keeps its beginning."""

_HEADING = regex.compile(r"\s*#{1,6}\s")
_ASIDE = regex.compile(
    r"\W*(?:\d+\W*)?(?:references|bibliography|works cited|acknowledge?ments?)\W*$", regex.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class SourcePassage:
    """A passage of the document: its id, its text, and the heading above it."""

    id: str
    text: str
    section: str = ""


def sentences_of(document: Document) -> tuple[SourcePassage, ...]:
    """The sentences of a document's prose and the rows of its tables, each named `start-end` and with its heading.

    References and acknowledgements say nothing of what the document says, and are left out.
    """
    sections = document.sections or (Section((), 0, len(document.text)),)
    prose = list[SourcePassage]()
    for section in sections:
        if section.heading and _ASIDE.match(section.heading[-1]):
            continue
        for sentence in sentences(document.text[section.start : section.end]):
            start, end = section.start + sentence.start, section.start + sentence.end
            text = document.text[start:end]
            if sentence.kind != "code" and len(stems(text)) > 1 and not _HEADING.match(text):
                prose.append(SourcePassage(f"{start}-{end}", text, " › ".join(section.heading)))
    return tuple(prose)


def lead(document: Document) -> str:
    """Return the start of a document: its abstract if a section has that title, else its first prose."""
    for section in document.sections:
        if section.heading and section.heading[-1].strip().casefold() in ("abstract", "summary"):
            return clipped(document.text[section.start : section.end].strip(), LEAD_CHARS)
    for block in blocks(document.text[: 8 * LEAD_CHARS]):
        text = document.text[block.start : block.end].strip()
        if block.kind == "prose" and len(text.split()) > 5 and not _HEADING.match(text):
            return clipped(text, LEAD_CHARS)
    return ""


def clipped(text: str, chars: int) -> str:
    """Whole sentences of the beginning, at most `chars` of them; the first is cut where it alone is longer."""
    if len(text) <= chars:
        return text
    ends = [end for _, end in sentence_spans(text[: 2 * chars]) if end <= chars]
    return text[: ends[-1]] if ends else text[:chars].rsplit(" ", 1)[0]


def numbered_texts(texts: Sequence[str]) -> list[Evidence]:
    """Texts as evidence without a source, numbered from 1, to score sentences of them."""
    return [
        Evidence(
            n=n, passage_id="", document_id="", title="", heading=[], page=None, start=0, end=len(text), text=text,
            source="", score=0.0, ranks={},
        )
        for n, text in enumerate(texts, 1)
    ]  # fmt: skip
