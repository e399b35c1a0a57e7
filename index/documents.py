"""Documents and their sections: what a loader hands to the index.

Offsets everywhere count Python characters of `Document.text`. This module knows nothing of files,
passages or search.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

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
    """Where a stretch of a document's text stands: page from 1, points from the page's top left corner.

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


def section_values(section: Section) -> tuple[object, ...]:
    """Return the fields of a section, in order, as JSON values."""
    values: tuple[object, ...] = _SECTION(section)
    return values


def section_of(values: Sequence[Any]) -> Section:
    heading, start, end, page, passage_id, metadata, placed = values
    return Section(
        tuple(heading), start, end, page, passage_id, metadata, tuple(PlacedText(*place) for place in placed)
    )


_SECTION = attrgetter(*(field.name for field in fields(Section)))


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
