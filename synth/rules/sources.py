"""Documents for the rules: loaded, cut to a size that a conversation can stay within, and kept in a spool file.

Loading is `index.loaders`' business; compressed files (`.txt.gz`, `.jsonl.gz`) are unpacked first. The spool holds
each document once on disk with its offset, so that they can be drawn in any order by several processes while no
process holds more than a block of them.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import tempfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from index.documents import Document
from index.loaders import scan

PART_CHARACTERS = 14_000
"""A longer document is cut at blank lines into parts of about this length."""
WHOLE_BLOCK = 1_200
"""In plain text, a block between blank lines of at least so many characters is a document of its own."""
MAX_UNPACKED = 2 << 30


@dataclass(frozen=True, slots=True)
class SourceText:
    """One document, or a part of one, as Markdown or plain text."""

    document_id: str
    title: str
    text: str


def source_texts(
    paths: Sequence[Path],
    warn: Callable[[str], None],
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> Iterator[SourceText]:
    """Every document under `paths`, in a fixed order; what cannot be read is told to `warn` and passed over."""
    packed = [path for path in paths if path.suffix.lower() == ".gz"]
    plain = [path for path in paths if path.suffix.lower() != ".gz"]
    if plain:
        yield from _scanned(plain, warn, include, exclude)
    for path in packed:
        with tempfile.TemporaryDirectory() as folder:
            inner = Path(folder) / path.stem
            try:
                _unpack(path, inner)
            except (OSError, EOFError, ValueError) as error:
                warn(f"{path} was left out: {error}")
                continue
            yield from _scanned([inner], warn, include, exclude)


def _unpack(path: Path, inner: Path) -> None:
    with gzip.open(path, "rb") as packed, inner.open("wb") as file:
        left = MAX_UNPACKED
        while data := packed.read(1 << 20):
            left -= len(data)
            if left < 0:
                raise ValueError(f"it unpacks to more than {MAX_UNPACKED >> 30} GiB")
            file.write(data)


def _scanned(
    paths: Sequence[Path], warn: Callable[[str], None], include: Sequence[str], exclude: Sequence[str]
) -> Iterator[SourceText]:
    for loaded in scan(paths, include, exclude):
        if loaded.error is not None:
            warn(f"{loaded.source.path} was left out: {loaded.error}")
        for document in loaded.documents:
            yield from _parts(document)


def _parts(document: Document) -> Iterator[SourceText]:
    text = with_headings(document)
    blocks = [block for block in text.split("\n\n") if block.strip()]
    alone = document.metadata.get("format") == "text"
    part: list[str] = []
    size = number = 0
    for block in blocks:
        whole = alone and len(block) >= WHOLE_BLOCK
        if part and (whole or size + len(block) > PART_CHARACTERS):
            yield _part(document, part, number)
            part, size, number = [], 0, number + 1
        part.append(block)
        size += len(block)
        if whole:
            yield _part(document, part, number)
            part, size, number = [], 0, number + 1
    if part:
        yield _part(document, part, number)


def _part(document: Document, blocks: Sequence[str], number: int) -> SourceText:
    name = f"{document.id}#part{number}" if number else document.id
    return SourceText(name, document.title, "\n\n".join(blocks))


def with_headings(document: Document) -> str:
    """The text of a document's sections with every heading as a Markdown line, whatever its format was."""
    if not document.sections:
        return document.text
    out: list[str] = []
    above: tuple[str, ...] = ()
    for section in document.sections:
        for level, name in enumerate(section.heading):
            if section.heading[: level + 1] != above[: level + 1]:
                out.append(f"{'#' * min(level + 2, 6)} {name}")
        above = section.heading
        out.append(document.text[section.start : section.end])
    return "\n\n".join(out)


@dataclass(slots=True)
class Spool:
    """Documents on disk: `lengths[i]` characters of text each, read back by number."""

    path: Path
    offsets: array[int]
    lengths: array[int]
    digest: str

    def __len__(self) -> int:
        return len(self.offsets)

    def read(self, numbers: Sequence[int]) -> list[SourceText]:
        """The documents of these numbers, in this order."""
        found: list[SourceText] = []
        with self.path.open("rb") as file:
            for number in numbers:
                file.seek(self.offsets[number])
                row = json.loads(file.readline())
                found.append(SourceText(row["id"], row["title"], row["text"]))
        return found


def spooled(texts: Iterator[SourceText], path: Path) -> Spool:
    """Write documents to `path`; the same text twice is kept once. `digest` is SHA-256 over all that was kept."""
    digest = hashlib.sha256()
    offsets: array[int] = array("Q")
    lengths: array[int] = array("Q")
    seen: set[bytes] = set()
    with path.open("wb") as file:
        for text in texts:
            line = json.dumps({"id": text.document_id, "title": text.title, "text": text.text}).encode() + b"\n"
            own = hashlib.blake2b(text.text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
            if own in seen:
                continue
            seen.add(own)
            offsets.append(file.tell())
            lengths.append(len(text.text))
            digest.update(line)
            file.write(line)
    return Spool(path, offsets, lengths, digest.hexdigest())
