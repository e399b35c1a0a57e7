"""A document as it is read beside one quote of it: title, lead, the quote's section and paragraph, and its passages.

Where the passages come from (a collection, a line of a file, an evaluation set) is left to whoever makes one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import regex

from index.documents import Document, Section
from index.encoders import TextEncoder, Vectors
from index.fusion import fuse
from index.lexical import K1, Bm25s, NoTerms
from index.query import Passage
from server.turn.events import Evidence
from text.blocks import blocks
from text.sentences import sentence_spans, sentences
from text.words import stems, tokenize

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


def quote_of(document: Document, passages: Sequence[Passage], start: int, end: int) -> SourceQuote:
    """`document.text[start:end]` with what stands around it."""
    return SourceQuote(
        snippet=document.text[start:end],
        title=document.title,
        lead=lead(document),
        paragraph=paragraph(document.text, start, end),
        passages=tuple(SourcePassage(passage.id, passage.text, " › ".join(passage.heading)) for passage in passages),
    )


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


def paragraph(text: str, start: int, end: int) -> str:
    """Return the paragraph around a quote, at most `PARAGRAPH_CHARS` on each side."""
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


WithinRanking = Literal["bm25", "dense", "fused"]


class Within:
    """The texts of one document, to be searched. Blocks; encoding takes some milliseconds a text."""

    def __init__(
        self, texts: Sequence[str], encoder: TextEncoder | None = None, vectors: Vectors | None = None, k1: float = K1
    ) -> None:
        """`vectors` are the texts' own where they are there already, `(len(texts), dimension)`, L2-normalised."""
        self.texts = list(texts)
        self._encoder = encoder
        self._vectors = vectors
        terms = [tokenize(text) for text in self.texts]
        self._lexical: Bm25s | NoTerms = Bm25s.build(terms, k1) if any(terms) else NoTerms(len(terms))

    def rank(self, query: str, k: int, by: WithinRanking = "fused") -> list[int]:
        """Places of at most `k` texts, best first; without an encoder by BM25 alone."""
        depth = len(self.texts)
        lexical = self._lexical.search(query, depth) if by != "dense" or self._encoder is None else []
        if self._encoder is None or by == "bm25":
            return lexical[:k]
        dense = [int(row) for row in np.argsort(-self.similarities(query), kind="stable")]
        if by == "dense":
            return dense[:k]
        return [fused.id for fused in fuse([("bm25", 1.0, lexical), ("dense", 1.0, dense)], limit=k)]

    def similarities(self, query: str) -> Vectors:
        """Cosines of every text to the query, `(len(texts),)`. Needs an encoder."""
        if self._encoder is None:
            raise ValueError("there is no encoder to compare by")
        scores: Vectors = self.vectors @ self._encoder.encode([query])[0]
        return scores

    def overlaps(self, query: str) -> Vectors:
        """BM25 scores of every text for the query, `(len(texts),)`."""
        return self._lexical.scores(query)

    @property
    def vectors(self) -> Vectors:
        """The texts' vectors, `(len(texts), dimension)`. Needs an encoder."""
        if self._vectors is None:
            if self._encoder is None:
                raise ValueError("there is no encoder to compare by")
            self._vectors = self._encoder.encode(self.texts)
        return self._vectors


SpanKind = Literal["kept", "added", "removed"]

_PROTECTED = regex.compile(
    r"(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)"  # code in a line
    r"|!?\[[^\[\]\n]*\]\([^()\s]*\)"  # a link
    r"|<[^<>\s][^<>\n]*>"  # a tag or an address in angle brackets
    r"|(?:https?|ftp)://[^\s<>\])}]+|www\.[^\s<>\])}]+"
    r"|\$[^$\n]{1,200}\$|\\\(.{1,200}?\\\)"  # mathematics
    r"|\[[^\[\]\n]{0,60}\]"  # [2], arr[0], [Smith 2019]
    r"|\((?:[^()\n]{0,80}\b(?:19|20)\d\d[a-z]?(?:[;,][^()\n]{0,80})?)\)",  # (Smith et al., 2019)
    regex.DOTALL,
)
_CLOSES = regex.compile(r"[.,;:!?)]")
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}_]+(?:['’\-./:][\p{L}\p{M}\p{N}_]+)*")


@dataclass(frozen=True, slots=True)
class QuoteSpan:
    """A stretch of a changed quote; an added one is without its brackets."""

    kind: SpanKind
    text: str


@dataclass(frozen=True, slots=True)
class Edit:
    """`text[start:end]` is taken out (nothing where both are equal), and `added` put behind it."""

    start: int
    end: int
    added: str = ""


def untouchable(text: str) -> list[tuple[int, int]]:
    """Code, links, tags, formulas and citations, in order: nothing is added within them or taken from them."""
    spans = [(block.start, block.end) for block in blocks(text) if block.kind == "code"]
    inline = [match.span() for match in _PROTECTED.finditer(text)]
    spans += [(start, end) for start, end in inline if not any(a < end and start < b for a, b in spans)]
    return sorted(spans)


def place_behind(text: str, at: int) -> int | None:
    """The first place from `at` on where an addition may stand: behind the word and the protected stretch that
    `at` is in. None within a code block, behind which nothing would be in its place."""
    fenced = [(block.start, block.end) for block in blocks(text) if block.kind == "code"]
    if any(start <= at <= end for start, end in fenced):
        return None
    moved = True
    while moved:
        moved = False
        for start, end in untouchable(text):
            if start < at < end:
                at, moved = end, True
        for word in _WORD.finditer(text, max(0, at - 200)):
            if word.start() >= at:
                break
            if at < word.end():
                at, moved = word.end(), True
    return at


def apply(text: str, edits: Iterable[Edit]) -> list[QuoteSpan]:
    """The spans that edits make of a text. Edits do not overlap; of additions in one place the first comes first."""
    spans: list[QuoteSpan] = []
    at = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < at:
            raise ValueError(f"edits overlap at {edit.start}")
        spans += [QuoteSpan("kept", text[at : edit.start]), QuoteSpan("removed", text[edit.start : edit.end])]
        spans.append(QuoteSpan("added", edit.added))
        at = edit.end
    spans.append(QuoteSpan("kept", text[at:]))
    return joined(spans)


def joined(spans: Iterable[QuoteSpan]) -> list[QuoteSpan]:
    """The same without empty spans, and with neighbours of one kind in one; additions stay apart."""
    merged: list[QuoteSpan] = []
    for span in spans:
        if not span.text:
            continue
        if merged and merged[-1].kind == span.kind != "added":
            merged[-1] = QuoteSpan(span.kind, merged[-1].text + span.text)
        else:
            merged.append(span)
    return merged


def original(spans: Sequence[QuoteSpan]) -> str:
    """Return the quote as written in its document."""
    return "".join(span.text for span in spans if span.kind != "added")


def kept(spans: Sequence[QuoteSpan]) -> str:
    """Return the words of the quote outside the brackets."""
    return "".join(span.text for span in spans if span.kind == "kept")


def bracketed(spans: Sequence[QuoteSpan]) -> str:
    """The quote as it is shown and copied: additions in brackets, what was removed left out."""
    text, after_addition = "", False
    for span in spans:
        if span.kind == "added":
            text += f"{'' if not text or text[-1].isspace() else ' '}[{span.text}]"
            after_addition = True
        elif span.kind == "kept":
            # `[…](` would be a link, `[…][` a reference.
            if after_addition and (_WORD.match(span.text) or span.text[0] in "(["):
                text += " "
            if text[-1:].isspace():
                # What was removed had a blank on either side, or a full stop behind it.
                text = text.rstrip() if _CLOSES.match(span.text) else text
                span = QuoteSpan("kept", span.text.removeprefix(" "))
            text += span.text
            after_addition = False
    return text
