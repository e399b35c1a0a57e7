"""Inputs and outputs of a search: weighted queries, passages, hits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from index.documents import Metadata, MetadataValue

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Where: TypeAlias = Mapping[str, MetadataValue | list[MetadataValue]]
"""A filter on passage metadata: every key must equal the value, or be one of the listed values."""


def in_scope(wanted: Where, metadata: Mapping[str, object]) -> bool:
    """Whether `metadata`, a filter or those of a passage, has nothing but what `wanted` takes."""
    return all(key in metadata and _values(metadata[key]) <= _values(value) for key, value in wanted.items())


def _values(value: object) -> set[object]:
    return set(value) if isinstance(value, list | tuple | set) else {value}


class Box(NamedTuple):
    """A rectangle on a page, in points from the page's top left corner; pages count from 1.

    `region` is the kind of the page's part that it lies in, empty where that is not known.
    """

    page: int
    x0: float
    y0: float
    x1: float
    y1: float
    region: str = ""


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
    boxes: tuple[Box, ...] = ()

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
    both weights follow how clearly the text points at something in the collection (`index.fusion.query_confidence`):
    up when a few passages stand out, down when none does. With a `document_prior_weight` above 0 the query finds no
    passages: its rankings say which documents are spoken of (`index.fusion.document_prior`), which weighs at most so
    many times as much as all that finds passages. With `within` it finds only passages of the first of these
    filters that fits any, and so favours them.
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
