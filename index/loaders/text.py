"""Plain text: one section, or one for each page where form feeds part them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from index.documents import Document, Section
from index.errors import LoadError
from index.loaders.reading import clean, decode, read_bytes, title_from_name
from text.sentences import trim


def load(path: Path, document_id: str, max_bytes: int) -> list[Document]:
    """One document. Raises LoadError where the file cannot be read, is binary or blank."""
    pages = [clean(page) for page in decode(read_bytes(path, max_bytes), path.name).split("\f")]
    sections = tuple(_sections(pages))
    if not sections:
        raise LoadError(f"{path.name} holds nothing but white space: fill it or exclude it")
    metadata = {"source": document_id, "format": "text"}
    return [Document(document_id, title_from_name(path.name), "\n".join(pages), sections, metadata)]


def _sections(pages: list[str]) -> Iterator[Section]:
    start = 0
    for number, page in enumerate(pages, 1):
        begin, end = trim(page, 0, len(page))
        if begin < end:
            yield Section((), start + begin, start + end, number if len(pages) > 1 else None)
        start += len(page) + 1
