"""Plain text: one section, or one for each page where form feeds part them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from index.documents import Document, Section
from index.errors import LoadError
from index.loaders.reading import read_text, title_from_name
from text.sentences import trim


def load(path: Path, document_id: str, max_bytes: int) -> list[Document]:
    """One document. Raises LoadError where the file cannot be read, is binary or blank."""
    text = read_text(path, max_bytes)
    sections = tuple(_pages(text))
    if not sections:
        raise LoadError(f"{path.name} holds nothing but white space: fill it or exclude it")
    metadata = {"source": document_id, "format": "text"}
    return [Document(document_id, title_from_name(path.name), text, sections, metadata)]


def _pages(text: str) -> Iterator[Section]:
    paged = "\f" in text
    start = 0
    for number, page in enumerate(text.split("\f"), 1):
        begin, end = trim(text, start, start + len(page))
        if begin < end:
            yield Section((), begin, end, number if paged else None)
        start += len(page) + 1
