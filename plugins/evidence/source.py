"""A document as it is read for one sentence that cites it: its sentences, its lead, and a search within it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import regex

from index.documents import Document, Section
from index.encoders import TextEncoder, Vectors
from index.ranking import K1, Bm25s, fuse
from server.turn.events import Evidence
from text.sentences import blocks, sentence_spans, sentences
from text.words import stems, tokenize

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
        self._lexical = Bm25s.build(map(tokenize, self.texts), k1)

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
