"""Documents and passages of one version, in one SQLite file that is written once and then only read.

Rows number the passages from 0, by document id and then in reading order, so that they depend on
what is indexed and not on the order of indexing. `key` names what of a passage is embedded: two
passages of the same title, headings and text have the same key, and need one vector.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from index.documents import LABELS, Document, Metadata, section_of
from index.errors import CollectionCorrupt, DocumentNotFound
from index.query import Box, Passage

PASSAGE_COLUMNS = 'id, document_id, title, text, kind, "start", "end", heading, page, metadata, boxes'


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """A document of a collection, without its text; `passages` counts, `warning` says what of its file was left out."""

    id: str
    title: str
    source: str
    format: str
    passages: int
    content_hash: str
    path: str
    warning: str = ""
    labels: str = ""
    """`LABELS` as its metadata holds them."""


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file that was indexed: where it lies, the id it was loaded with, what it looked like, what was left out."""

    path: str
    document_id: str
    fingerprint: str
    warning: str = ""


def embedding_key(text: str) -> bytes:
    """Names an indexed text: 16 bytes."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class Records:
    """The records of a finished version; safe to read from several threads."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise FileNotFoundError(f"{path} is missing")
        self._path = path
        self._lock = threading.Lock()
        # A finished version never changes, which spares SQLite its locks and lets any process read.
        self._db = sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True, check_same_thread=False)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @cached_property
    def _passage(self) -> str:
        """The columns of a passage; records written before passages had boxes have none."""
        known = self._all("SELECT 1 FROM pragma_table_info('passages') WHERE name = 'boxes'")
        return PASSAGE_COLUMNS if known else PASSAGE_COLUMNS.replace("boxes", "'[]'")

    def _all(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                return self._db.execute(query, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise CollectionCorrupt(f"{self._path} cannot be read ({error}): index again") from error

    def passage_ids(self) -> list[str]:
        """Ids of all passages, row by row."""
        return [row[0] for row in self._all('SELECT id FROM passages ORDER BY "row"')]

    def documents_by_row(self) -> array[int]:
        """A number for the document of each passage, row by row."""
        numbers: dict[str, int] = {}
        rows = self._all('SELECT document_id FROM passages ORDER BY "row"')
        return array("q", (numbers.setdefault(row[0], len(numbers)) for row in rows))

    def passages(self, rows: Sequence[int]) -> list[Passage]:
        """The passages of these rows, in this order."""
        marks = ",".join("?" * len(rows))
        found = {
            row[0]: passage_of(row[1:])
            for row in self._all(f'SELECT "row", {self._passage} FROM passages WHERE "row" IN ({marks})', rows)
        }
        return [found[row] for row in rows]

    def passages_of(self, document_id: str) -> list[Passage]:
        """The passages of a document, row by row; none where it is not there."""
        query = f'SELECT {self._passage} FROM passages WHERE document_id = ? ORDER BY "row"'
        return [passage_of(row) for row in self._all(query, (document_id,))]

    def document(self, document_id: str) -> Document:
        """A whole document; raises DocumentNotFound."""
        rows = self._all(
            "SELECT id, title, text, sections, metadata, verbatim FROM documents WHERE id = ?", (document_id,)
        )
        if not rows:
            raise DocumentNotFound(f"there is no document {document_id!r} in this collection")
        name, title, text, sections, metadata, verbatim = rows[0]
        parts = tuple(map(section_of, json.loads(sections)))
        return Document(name, title, text, parts, json.loads(metadata), bool(verbatim))

    def source(self, document_id: str) -> FileRecord:
        """The file a document came from; raises DocumentNotFound."""
        query = (
            "SELECT files.path, document_id, fingerprint, warning FROM files"
            " JOIN documents ON documents.path = files.path WHERE documents.id = ?"
        )
        rows = self._all(query, (document_id,))
        if not rows:
            raise DocumentNotFound(f"there is no document {document_id!r} in this collection")
        return FileRecord(*rows[0])

    def documents(self) -> list[DocumentInfo]:
        """All documents, by id."""
        counts = dict(self._all("SELECT document_id, count(*) FROM passages GROUP BY document_id"))
        rows = self._all(
            "SELECT id, title, metadata, content_hash, path, coalesce(warning, '') FROM documents "
            "LEFT JOIN files USING (path) ORDER BY id"
        )
        return [
            DocumentInfo(name, title, source, form, counts.get(name, 0), content_hash, path, warning, labels)
            for name, title, metadata, content_hash, path, warning in rows
            for source, form, labels in [_named(metadata)]
        ]

    def files(self) -> list[FileRecord]:
        """All files, by path."""
        return [
            FileRecord(*row)
            for row in self._all("SELECT path, document_id, fingerprint, warning FROM files ORDER BY path")
        ]

    def keys(self) -> list[bytes]:
        """Embedding keys of all passages, row by row."""
        return [row[0] for row in self._all('SELECT key FROM passages ORDER BY "row"')]

    def terms(self) -> Iterator[list[str]]:
        """Terms of all passages, row by row."""
        for (terms,) in self._all('SELECT terms FROM passages ORDER BY "row"'):
            yield terms.split()

    def rows_by_value(self, key: str) -> dict[str, list[int]]:
        """Rows of the passages that have a metadata key, grouped by its value as JSON text."""
        path = '$."' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'
        groups: dict[str, list[int]] = {}
        for value, row in self._all('SELECT metadata -> ?, "row" FROM passages ORDER BY "row"', (path,)):
            if value is not None:
                groups.setdefault(value, []).append(row)
        return groups

    def rows_by_document(self) -> dict[str, list[int]]:
        """Rows of the passages of each document."""
        groups: dict[str, list[int]] = {}
        for document_id, row in self._all('SELECT document_id, "row" FROM passages ORDER BY "row"'):
            groups.setdefault(document_id, []).append(row)
        return groups


def _named(metadata: str) -> tuple[str, str, str]:
    """The source, the format and the labels of a document."""
    known = json.loads(metadata)
    return str(known.get("source", "")), str(known.get("format", "")), str(known.get(LABELS, ""))


def passage_of(row: Sequence[Any]) -> Passage:
    """A passage from a row of `PASSAGE_COLUMNS`."""
    name, document_id, title, text, kind, start, end, heading, page, metadata, boxes = row
    path = () if heading == "[]" else tuple(json.loads(heading))
    own: Metadata = {} if metadata == "{}" else json.loads(metadata)
    places = () if boxes == "[]" else tuple(Box(*one) for one in json.loads(boxes))
    return Passage(name, document_id, title, text, kind, start, end, path, page, own, places)
