"""A document as it is read beside one quote of it: title, lead, the quote's section and paragraph, and its passages.

Where the passages come from (a collection, a line of a file, an evaluation set) is left to whoever makes one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import regex

from index.documents import Document, Section
from index.query import Passage
from server.turn.events import Evidence
from text.blocks import blocks
from text.sentences import sentence_spans, sentences
from text.words import stems

LEAD_CHARS = 1200
PARAGRAPH_CHARS = 2400
"""Longest lead and paragraph; what is longer keeps its beginning, or what stands around the quote."""

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


@dataclass(frozen=True, slots=True)
class SourceQuote:
    """A quote, and the document it is read in. Any part but the snippet may be empty."""

    snippet: str
    title: str = ""
    lead: str = ""
    section: str = ""
    paragraph: str = ""
    passages: tuple[SourcePassage, ...] = ()
    introduction: str = ""


def quote_of(document: Document, passages: Sequence[Passage], start: int, end: int) -> SourceQuote:
    """`document.text[start:end]` with what stands around it."""
    section = section_at(document, start)
    return SourceQuote(
        snippet=document.text[start:end],
        title=document.title,
        lead=lead(document),
        section=" › ".join(section.heading) if section else "",
        paragraph=paragraph(document.text, start, end),
        passages=tuple(SourcePassage(one.id, one.text, " › ".join(one.heading)) for one in passages),
    )


def sentences_of(document: Document) -> tuple[SourcePassage, ...]:
    """The sentences of a document's prose and the rows of its tables, each named `start-end` and with its heading.

    References and acknowledgements say nothing of what the document says, and are left out.
    """
    sections = document.sections or (Section((), 0, len(document.text)),)
    found = list[SourcePassage]()
    for section in sections:
        if section.heading and _ASIDE.match(section.heading[-1]):
            continue
        for one in sentences(document.text[section.start : section.end]):
            start, end = section.start + one.start, section.start + one.end
            text = document.text[start:end]
            if one.kind != "code" and len(stems(text)) > 1 and not _HEADING.match(text):
                found.append(SourcePassage(f"{start}-{end}", text, " › ".join(section.heading)))
    return tuple(found)


def section_at(document: Document, at: int) -> Section | None:
    """The section that holds a place."""
    return next((one for one in document.sections if one.start <= at < max(one.end, one.start + 1)), None)


def lead(document: Document) -> str:
    """What a document begins with: its abstract where a section is called so, else its first prose."""
    for section in document.sections:
        if section.heading and section.heading[-1].strip().casefold() in ("abstract", "summary"):
            return clipped(document.text[section.start : section.end].strip(), LEAD_CHARS)
    for block in blocks(document.text[: 8 * LEAD_CHARS]):
        text = document.text[block.start : block.end].strip()
        if block.kind == "prose" and len(text.split()) > 5 and not _HEADING.match(text):
            return clipped(text, LEAD_CHARS)
    return ""


def paragraph(text: str, start: int, end: int) -> str:
    """The lines between two empty ones that a quote stands in, at most `PARAGRAPH_CHARS` around it."""
    first = text.rfind("\n\n", max(0, start - PARAGRAPH_CHARS), start)
    last = text.find("\n\n", end, end + PARAGRAPH_CHARS)
    first = first + 2 if first >= 0 else max(0, start - PARAGRAPH_CHARS // 2)
    last = last if last >= 0 else min(len(text), end + PARAGRAPH_CHARS // 2)
    return text[first:last].strip()


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
