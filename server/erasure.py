"""Erasing a person or a document from a home, and proving it by looking for their words in every file there.

The index and the store forget their own data (`index.indexer`, `server.store.erasing`); this module calls them in an
order that can be repeated after a crash, and then verifies. Files outside the home are not touched: backups, folders
that were indexed, what a language model server remembers.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from index.collection import Collection
from index.encoders import Encoder
from index.errors import DocumentNotFound
from index.indexer import erase_documents
from index.version import CollectionFolder
from server.audit_log import at_terminal, entry
from server.chat.collections import Uploads
from server.settings import Settings
from server.store import Database, audit, erasing
from server.store.erasing import Erasure

SENTENCES = 200
"""So many lines of a document are looked for afterwards, spread over it."""

SHORTEST, LONGEST = 24, 400
"""Characters of such a line: shorter ones say little, of longer ones the beginning is looked for."""

UNSEARCHED = frozenset({"models"})
"""Folders of a home that hold only what was fetched."""


@dataclass(frozen=True, slots=True)
class Remnant:
    """A text that is still in a file."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """Erased items, files that still hold remnants, and steps left to the caller."""

    erased: Erasure
    documents: tuple[str, ...]
    searched: int
    remnants: tuple[Remnant, ...]
    advice: tuple[str, ...] = ()


def erase_document(
    settings: Settings, database: Database, encoder: Encoder, collection: str, document_id: str
) -> ErasureReport:
    """Take a document out of its collection, its file if it was uploaded, and what was quoted from it.

    May be repeated after it was interrupted, also where the document itself is gone already. Raises
    CollectionNotFound, CollectionLocked, StorageError, StoreError.
    """
    sentences, path = _read(settings, encoder, collection, document_id)
    advice = list[str]()
    root = settings.home / "collections"
    uploads = Uploads(settings.home, 0)
    if path is not None and not uploads.holds(collection, path) and path.exists():
        advice.append(f"{path} was left alone; delete it, or the next `anaphora index` reads it again.")
    elif path is not None:
        path.unlink(missing_ok=True)
    try:
        erase_documents(root, collection, [document_id], encoder, store=settings.index.vectors)
        gone = [f"{collection}/{document_id}"]
    except DocumentNotFound:
        # Deleted before, or by an erasure that was cut short: older versions may hold it.
        erase_documents(root, collection, [], encoder, store=settings.index.vectors)
        gone = []
        advice.append(
            f"{collection} holds no document {document_id}: it was deleted before, or its id is another, "
            "as the page and the workbench show it."
        )

    def forget(connection: Connection) -> Erasure:
        noted = entry(at_terminal(), "document.erase", document_id, collection=collection)
        audit.append(connection, noted)
        return erasing.erase_document(connection, collection, document_id, sentences)

    erased = database.write_blocking(forget)
    return _report(settings.home, database, erased, gone, sentences, advice)


def erase_person(
    settings: Settings, database: Database, encoder: Encoder, principal: str, *, keep_uploads: bool = False
) -> ErasureReport:
    """Take out what a principal asked, was answered, rated and handed in. Raises what `erase_document` does."""
    documents, advice, sentences = list[str](), list[str](), list[str]()
    uploads = [] if keep_uploads else database.read_blocking(erasing.uploads_of, principal)
    for collection, document_id in uploads:
        if not CollectionFolder(settings.home / "collections", collection).candidates():
            continue
        done = erase_document(settings, database, encoder, collection, document_id)
        documents += done.documents
        advice += done.advice
    texts = database.read_blocking(erasing.said_by, principal)
    long = list(dict.fromkeys(text[:LONGEST] for text in texts if len(text) >= SHORTEST))
    others_texts = database.read_blocking(erasing.said_by_others, principal, long)
    sentences += [text for text in long if text not in others_texts]

    def forget(connection: Connection) -> Erasure:
        audit.append(connection, entry(at_terminal(), "person.erase", principal))
        return erasing.erase_person(connection, principal)

    erased = database.write_blocking(forget)
    if principal == "local":
        (settings.home / "ask_history").unlink(missing_ok=True)
    return _report(settings.home, database, erased, documents, sentences, advice)


def remnants(home: Path, texts: Sequence[str]) -> tuple[Remnant, ...]:
    """Find `texts` in the files of the home, as they are, in lower case, or escaped as in JSON."""
    wanted = [(text, form) for text in texts for form in _forms(text)]
    remnants = list[Remnant]()
    for path in _files(home):
        remnants += [Remnant(path, text) for text in dict.fromkeys(_in(path, wanted))]
    return tuple(remnants)


def _report(
    home: Path,
    database: Database,
    erased: Erasure,
    documents: Sequence[str],
    sentences: Sequence[str],
    advice: list[str],
) -> ErasureReport:
    if reason := database.compact():
        advice.append(reason)
    return ErasureReport(erased, tuple(documents), len(sentences), remnants(home, sentences), tuple(advice))


def _read(settings: Settings, encoder: Encoder, collection: str, document_id: str) -> tuple[list[str], Path | None]:
    """Lines that only this document has, and the file it was read from; nothing of one that is not there."""
    CollectionFolder(settings.home / "collections", collection).require()
    opened = Collection.open(settings.home / "collections", collection, encoder, store=settings.index.vectors)
    try:
        infos = {info.id: info for info in opened.documents()}
        if document_id not in infos:
            return [], None
        lines = dict.fromkeys(
            line.strip()[:LONGEST]
            for line in opened.document(document_id).text.splitlines()
            if len(line.strip()) >= SHORTEST
        )
        for other in infos:
            if other != document_id:
                text = opened.document(other).text
                lines = {line: None for line in lines if line not in text}
    finally:
        opened.close()
    step = max(1, len(lines) // SENTENCES)
    return list(lines)[::step], Path(infos[document_id].path)


def _forms(text: str) -> Iterator[bytes]:
    for form in dict.fromkeys((text, text.lower(), json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])):
        yield form.encode("utf-8", "surrogatepass")


def _files(home: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(home):
        if Path(folder) == home:
            folders[:] = [name for name in folders if name not in UNSEARCHED]
        yield from (Path(folder) / name for name in sorted(files) if not (Path(folder) / name).is_symlink())


def _in(path: Path, wanted: Iterable[tuple[str, bytes]]) -> Iterator[str]:
    try:
        with path.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                yield from (text for text, form in wanted if content.find(form) >= 0)
    except (FileNotFoundError, ValueError):
        # Gone, or emptied, since it was listed.
        return
