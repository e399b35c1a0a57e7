"""Retrieval pools: which passages of a document are searched: its sections, its sentences, or propositions.

Propositions were written elsewhere and come as a file of JSON lines with `document_id`, `text`, `start`, `end` and
`source` (the document's own words there). A document without any keeps its sections, so that nothing indexed is
out of reach. A collection remembers its pool, for whoever indexes it next.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from index.documents import Document
from index.errors import CollectionCorrupt, LoadError
from index.passages import CountTokens, split
from index.query import Passage
from text.files import write_text

PoolKind: TypeAlias = Literal["section", "sentence", "proposition", "both"]
"""`both` is propositions and sections together."""

KINDS: tuple[PoolKind, ...] = get_args(PoolKind)
SECTION_START, SECTION_END = "section_start", "section_end"
"""Metadata of a proposition: offsets of the section passage around its source, to be shown as evidence."""

_FILE = "pool.json"


@dataclass(frozen=True, slots=True)
class Stated:
    """A proposition about a document: `document.text[start:end]`, which was `source`, says `text`."""

    id: str
    text: str
    start: int
    end: int
    source: str


@dataclass(frozen=True, slots=True)
class Pool:
    """Units of each document that are searched; `propositions` are by document id."""

    kind: PoolKind = "section"
    propositions: Mapping[str, tuple[Stated, ...]] = field(default_factory=dict)

    def passages(
        self, document: Document, max_tokens: int, count_tokens: CountTokens
    ) -> tuple[list[Passage], list[str]]:
        """The passages of a document in reading order, and remarks on what was left out.

        Propositions whose source is not in the document any more are left out.
        """
        if self.kind == "sentence":
            return split(document, max_tokens, count_tokens, "sentence"), []
        sections = split(document, max_tokens, count_tokens)
        stated = self.propositions.get(document.id, ()) if self.kind != "section" else ()
        current = [
            proposition
            for proposition in stated
            if document.text[proposition.start : proposition.end] == proposition.source
        ]
        remarks: list[str] = []
        if len(current) < len(stated):
            gone = len(stated) - len(current)
            remarks.append(f"{gone} propositions left out: the document changed since they were written")
        if not current:
            return sections, remarks
        propositions = [_passage(document, stated, sections) for stated in current]
        if self.kind == "proposition":
            return propositions, remarks
        return sorted([*sections, *propositions], key=lambda passage: passage.start), remarks

    def fingerprint(self) -> str:
        """Changes whenever this pool's passages of a document may; empty for sections."""
        if self.kind == "section":
            return ""
        digest = hashlib.blake2b(digest_size=8)
        for name, stated in sorted(self.propositions.items()):
            digest.update(repr((name, stated)).encode("utf-8", "surrogatepass"))
        return f" {self.kind} {digest.hexdigest()}"

    def remember(self, folder: Path) -> None:
        """Keep the pool in a collection's folder, in one step."""
        rows = [
            {"_id": proposition.id, "document_id": name}
            | {
                "text": proposition.text,
                "start": proposition.start,
                "end": proposition.end,
                "source": proposition.source,
            }
            for name, stated in self.propositions.items()
            for proposition in stated
        ]
        # The fingerprint tells a file that a disk has changed.
        content = {"kind": self.kind, "propositions": rows, "fingerprint": self.fingerprint()}
        write_text(folder / _FILE, json.dumps(content))


def remembered(folder: Path) -> Pool:
    """The pool a collection was indexed with last; sections where it never said. Raises CollectionCorrupt."""
    try:
        content = json.loads((folder / _FILE).read_text("utf-8"))
        pool = Pool(content["kind"], _by_document(_stated(row) for row in content["propositions"]))
        if pool.kind not in KINDS or content.get("fingerprint", pool.fingerprint()) != pool.fingerprint():
            raise ValueError("it is not as it was written")
        return pool
    except FileNotFoundError:
        return Pool()
    except (ValueError, KeyError, TypeError) as error:
        raise CollectionCorrupt(f"{folder / _FILE} cannot be read ({error}): index again with --pool") from error


def read_pool(path: Path, kind: PoolKind) -> Pool:
    """A pool with the propositions of a file. Raises LoadError naming a line that is none."""
    return Pool(kind, _by_document(_lines(path)))


def _lines(path: Path) -> Iterator[tuple[str, Stated]]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                yield _stated(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise LoadError(
                    f"{path}, line {number} is no proposition ({type(error).__name__}: {error}): give the "
                    "propositions.jsonl that `anaphora synth` wrote"
                ) from error


def _stated(row: Mapping[str, object]) -> tuple[str, Stated]:
    start, end = row["start"], row["end"]
    if not isinstance(start, int) or not isinstance(end, int) or not 0 <= start <= end:
        raise ValueError(f"{start!r} and {end!r} are no offsets")
    return str(row["document_id"]), Stated(str(row["_id"]), str(row["text"]), start, end, str(row["source"]))


def _by_document(rows: Iterator[tuple[str, Stated]]) -> dict[str, tuple[Stated, ...]]:
    by_document: dict[str, list[Stated]] = {}
    for name, stated in rows:
        by_document.setdefault(name, []).append(stated)
    return {name: tuple(stated) for name, stated in by_document.items()}


def _passage(document: Document, stated: Stated, sections: list[Passage]) -> Passage:
    """A proposition as a passage, under the headings of the section its source begins in."""
    around = [section for section in sections if section.start < stated.end and stated.start < section.end]
    if not around:
        # Between passages lies nothing with words: a source is in one of them, if the document has any.
        start, end, own = stated.start, stated.end, document.passage_metadata
        return Passage(stated.id, document.id, document.title, stated.text, "proposition", start, end, metadata=own)
    first = around[0]
    return replace(
        first,
        id=stated.id,
        text=stated.text,
        kind="proposition",
        start=stated.start,
        end=stated.end,
        metadata={**first.metadata, SECTION_START: first.start, SECTION_END: max(passage.end for passage in around)},
    )
