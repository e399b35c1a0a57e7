"""Every file below some paths, loaded in another process as indexing does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from index.documents import Document
from index.errors import LoadError
from index.loaders import SourceFile, walk
from index.loaders.files import MAX_FILE_MB
from index.loaders.sandbox import Limits, shared_pool


@dataclass(frozen=True)
class Loaded:
    """The documents of a file and what was left out of it, or the error."""

    source: SourceFile
    documents: list[Document]
    error: str | None = None
    warnings: Sequence[str] = ()


def scan(paths: Sequence[Path], include: Sequence[str] = (), exclude: Sequence[str] = ()) -> Iterator[Loaded]:
    """Load each file as it comes."""
    for source in walk(paths, include, exclude):
        try:
            parsed = shared_pool(Limits()).parse(source.path, source.document_id, MAX_FILE_MB)
        except LoadError as error:
            yield Loaded(source, [], str(error))
        else:
            yield Loaded(source, parsed.documents, None, parsed.warnings)
