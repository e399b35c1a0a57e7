"""Load every file of the given paths; one that fails is reported and never stops the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from index.documents import Document
from index.errors import LoadError
from index.loaders.files import DEFAULT_MAX_FILE_MB
from index.loaders.reading import clean
from index.loaders.sandbox import Limits, shared_pool
from index.loaders.walk import SourceFile, walk


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """What became of one file: its documents, or the `error` a person can act on.

    `warnings` tell what was left out of a file that could be read otherwise.
    """

    source: SourceFile
    documents: list[Document]
    error: str | None = None
    warnings: tuple[str, ...] = ()


def scan(
    paths: Sequence[Path],
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    max_file_mb: float = DEFAULT_MAX_FILE_MB,
    limits: Limits | None = None,
) -> Iterator[LoadedFile]:
    """Walk `paths` (see `walk`) and load each file as it comes, in another process within `limits`.

    Only one file's documents are held.

    No two documents and no two verbatim passages share an id: what comes second is left out with a
    warning that names the file that came first.
    """
    owners: dict[str, str] = {}
    passages: dict[str, str] = {}
    for source in walk(paths, include, exclude):
        try:
            parsed = shared_pool(limits or Limits()).parse(source.path, source.document_id, max_file_mb)
        except LoadError as error:
            yield LoadedFile(source, [], clean(str(error)))
            continue
        documents, warnings = parsed.documents, parsed.warnings
        kept = [document for document in documents if _claim(document, source.document_id, owners, passages, warnings)]
        if documents and not kept:
            yield LoadedFile(source, [], "; ".join(warnings))
        else:
            yield LoadedFile(source, kept, None, tuple(warnings))


def _claim(
    document: Document, file: str, owners: dict[str, str], passages: dict[str, str], warnings: list[str]
) -> bool:
    """Whether nothing of `document` was loaded before; if so its ids belong to `file` from now on."""
    if document.id in owners:
        _tell(warnings, f"document {document.id!r} already came from {owners[document.id]}: left out; rename one")
        return False
    names = [section.passage_id for section in document.sections if section.passage_id]
    known = next((name for name in names if name in passages), None)
    if known is not None:
        _tell(warnings, f"passage {known!r} already came from {passages[known]}: document {document.id!r} left out")
        return False
    owners[document.id] = file
    passages.update(dict.fromkeys(names, file))
    return True


def _tell(warnings: list[str], message: str) -> None:
    """Add a warning, but no more than a person would read."""
    if len(warnings) < 6:
        warnings.append(message)
    elif len(warnings) == 6:
        warnings.append("and more of the kind")
