"""Documents and their sections, as a loader hands them to the index; queries, passages and hits of a search.

Offsets everywhere count Python characters of `Document.text`. This module knows nothing of files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


MetadataValue: TypeAlias = str | int | float | bool
Metadata: TypeAlias = Mapping[str, MetadataValue]

REFERENCES = "references"
"""In a document's metadata: its list of references, an entry a line. No passage holds it, so it is no evidence."""

LINKS = "links"
"""In a document's metadata: the links of a file whose text shows only their words, as JSON: `[start, end, address]`."""

OPENING = "opening"
"""In a passage's metadata: what opens the code block or table within which it begins: a fence's line, a header."""

LABELS = "ref_labels"
"""In a document's metadata: names by which other documents refer to its places, as JSON, each with its heading's anchor
or nothing. `LABELLED` and a name, quoted, is the address of such a link."""
LABELLED = "?ref="


class PlacedText(NamedTuple):
    """A rectangle on a page in which text from `start` to `end` stands: page from 1, points from its top left corner.

    `region` is the kind of the page's part it belongs to (`text`, `table`, …), empty where nobody looked.
    """

    start: int
    end: int
    page: int
    x0: float
    y0: float
    x1: float
    y1: float
    region: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A stretch of a document under one heading, without the heading line and without subsections.

    `heading` is the path from the outermost heading to the section's own, the document's title left
    out; it is empty for text before the first heading. `page` counts from 1 and is None where the
    format has no pages. `passage_id` is set where the source names its passages itself (the `_id`
    of a row of `corpus.jsonl`); `metadata` is what holds for this section beyond the document's.
    `placed` tells for each line, in order, where it stands on its page, where the format has places.
    """

    heading: tuple[str, ...]
    start: int
    end: int
    page: int | None = None
    passage_id: str = ""
    metadata: Metadata = field(default_factory=dict)
    placed: tuple[PlacedText, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, values: Sequence[Any]) -> Section:
        """Return the section with these `values`, as JSON has them."""
        heading, start, end, page, passage_id, metadata, placed = values
        lines = tuple(PlacedText(*place) for place in placed)
        return cls(tuple(heading), start, end, page, passage_id, metadata, lines)

    @property
    def values(self) -> tuple[object, ...]:
        """The fields, in order; far faster than `asdict`."""
        return self.heading, self.start, self.end, self.page, self.passage_id, self.metadata, self.placed


@dataclass(frozen=True, slots=True)
class Document:
    """One source as text, with its sections in reading order (they never overlap).

    `id` names the source and stays the same when its content changes (for a file: its path relative
    to the indexed folder, with forward slashes). `metadata` holds flat values only; loaders set
    `source` (where a person can open it) and `format`.

    `verbatim` marks a document whose sections are passages as they stand (a row of `corpus.jsonl`)
    and are never split again.
    """

    id: str
    title: str
    text: str
    sections: tuple[Section, ...]
    metadata: Metadata = field(default_factory=dict)
    verbatim: bool = False

    @classmethod
    def of(cls, values: Sequence[Any]) -> Document:
        """Return the document with these `values`, as JSON has them."""
        name, title, text, sections, metadata, verbatim = values
        return cls(name, title, text, tuple(map(Section.of, sections)), metadata, verbatim)

    @property
    def values(self) -> tuple[object, ...]:
        """The fields, in order."""
        return self.id, self.title, self.text, self.sections, self.metadata, self.verbatim

    @property
    def passage_metadata(self) -> Metadata:
        """Return the metadata that passages inherit."""
        return {name: value for name, value in self.metadata.items() if name not in (REFERENCES, LINKS)}

    @property
    def content_hash(self) -> str:
        """SHA-256 (hex) over everything that is indexed: a changed hash means index again."""
        digest = hashlib.sha256()
        for part in (self.id, self.title, self.text, repr(self.sections), repr(sorted(self.metadata.items()))):
            digest.update(part.encode("utf-8", "surrogatepass"))
            digest.update(b"\x00")
        for section in self.sections:
            if section.placed:
                digest.update(repr(section.placed).encode())
        return digest.hexdigest()


Where: TypeAlias = Mapping[str, MetadataValue | list[MetadataValue]]
"""A filter on passage metadata: every key must equal the value, or be one of the listed values."""


def in_scope(wanted: Where, metadata: Mapping[str, object]) -> bool:
    """Whether `metadata`, a filter or those of a passage, has nothing but what `wanted` takes."""
    return all(key in metadata and _values(metadata[key]) <= _values(value) for key, value in wanted.items())


def _values(value: object) -> set[object]:
    return set(value) if isinstance(value, list | tuple | set) else {value}


@dataclass(frozen=True, slots=True)
class Passage:
    """A retrievable piece of a document.

    `document.text[start:end]` is `text`. `id` is a content hash, or the row's own `_id` for documents loaded verbatim.
    `page` is the page on which `start` lies; `boxes` are the places of the text, one for each page, column and kind of
    region it covers, if the document has places.
    """

    id: str
    document_id: str
    title: str
    text: str
    start: int
    end: int
    heading: tuple[str, ...] = ()
    page: int | None = None
    metadata: Metadata = field(default_factory=dict)
    boxes: tuple[PlacedText, ...] = ()

    @property
    def region(self) -> str:
        """The kind of the region that most of it lies in; empty where that is not known."""
        largest = max(self.boxes, key=lambda box: (box.x1 - box.x0) * (box.y1 - box.y0), default=None)
        return largest.region if largest else ""

    @property
    def indexed_text(self) -> str:
        """Title, heading path and text: what is embedded, scored by BM25 and reranked."""
        context = " > ".join(part for part in (self.title, *self.heading) if part)
        return f"{context}\n{self.text}" if context else self.text


@dataclass(frozen=True, slots=True)
class Query:
    """One query variant of a search: a text and how much its BM25 and its dense ranking weigh in the fusion.

    A weight of 0 skips that ranking altogether. `name` labels the variant in `Hit.ranks`. With a `confidence` above 0
    both weights follow how clearly the text points at something in the collection (`index.ranking.query_confidence`):
    up when a few passages stand out, down when none does; and where they begin with another document than the one that
    is spoken of, no document is favoured (`index.ranking.stands_elsewhere`). With a `document_prior_weight` above 0 the
    query finds no passages: its rankings say which documents are spoken of (`index.ranking.document_prior`), which
    weighs at most so many times as much as all that finds passages. With `within` it finds only passages of the first
    of these filters that fits any, and so favours them.
    """

    text: str
    name: str = "query"
    lexical: float = 1.0
    dense: float = 1.0
    confidence: float = 0.0
    document_prior_weight: float = 0.0
    within: tuple[Where, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class TokenStates:
    """The hidden states with which a cross-encoder read a question and a passage together.

    `states` is `(tokens, width)` float32, of one layer or several: the first token stands for the pair, the `question`
    first ones for the question's side. `spans` gives the characters of each token in `Passage.text`; both are 0 for a
    token that is not of it, and what the model had no room for has no token.
    """

    states: npt.NDArray[np.float32]
    spans: tuple[tuple[int, int], ...]
    question: int


@dataclass(frozen=True, slots=True)
class Hit:
    """A found passage, its fused score, and the rank (from 1) each ranking gave it.

    `ranks` has keys like `"typed/bm25"`, `"typed/dense"` and `"rerank"`; a ranking that did not
    return the passage has no key. `relevance` is what a cross-encoder said of the passage (its raw
    score, higher is better, comparable between questions); `tokens` are its states of that reading. Each is None where
    none told.
    """

    passage: Passage
    score: float
    ranks: Mapping[str, int] = field(default_factory=dict)
    relevance: float | None = None
    tokens: TokenStates | None = field(default=None, repr=False, compare=False)
