"""Documents and passages of one version, in one SQLite file that is written once and then only read.

Rows number the passages from 0, by document id and then in reading order, so that they depend on
what is indexed and not on the order of indexing. `key` names what of a passage is embedded: two
passages of the same title, headings and text have the same key, and need one vector.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import threading
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from index.documents import LABELS, Document, Metadata, MetadataValue, Passage, PlacedText, Where
from index.errors import CollectionCorrupt, DocumentNotFound
from text.languages import ENGLISH, analysis
from text.words import tokenize

PASSAGE_COLUMNS = 'id, document_id, title, text, "start", "end", heading, page, metadata, boxes'


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
        self._rows = 0
        self._values: dict[str, dict[tuple[bool, Any], list[int]]] = {}
        # A finished version never changes, which spares SQLite its locks and lets any process read.
        self._db = sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True, check_same_thread=False)

    def close(self) -> None:
        with self._lock:
            self._db.close()

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
        passages_by_id = {
            row[0]: passage_of(row[1:])
            for row in self._all(f'SELECT "row", {PASSAGE_COLUMNS} FROM passages WHERE "row" IN ({marks})', rows)
        }
        return [passages_by_id[row] for row in rows]

    def passages_of(self, document_id: str) -> list[Passage]:
        """The passages of a document, row by row; none where it is not there."""
        query = f'SELECT {PASSAGE_COLUMNS} FROM passages WHERE document_id = ? ORDER BY "row"'
        return [passage_of(row) for row in self._all(query, (document_id,))]

    def document(self, document_id: str) -> Document:
        """A whole document; raises DocumentNotFound."""
        query = "SELECT id, title, text, sections, metadata, verbatim FROM documents WHERE id = ?"
        name, title, text, sections, metadata, verbatim = self._row_of(query, document_id)
        return Document.of((name, title, text, json.loads(sections), json.loads(metadata), bool(verbatim)))

    def source(self, document_id: str) -> FileRecord:
        """The file a document came from; raises DocumentNotFound."""
        query = (
            "SELECT files.path, document_id, fingerprint, warning FROM files"
            " JOIN documents ON documents.path = files.path WHERE documents.id = ?"
        )
        return FileRecord(*self._row_of(query, document_id))

    def _row_of(self, query: str, document_id: str) -> tuple[Any, ...]:
        for row in self._all(query, (document_id,)):
            return row
        raise DocumentNotFound(f"There is no document {document_id!r} in this collection.")

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

    def keys(self) -> list[bytes]:
        """Embedding keys of all passages, row by row."""
        return [row[0] for row in self._all('SELECT key FROM passages ORDER BY "row"')]

    def terms(self) -> Iterator[list[str]]:
        """Terms of all passages, row by row."""
        for (terms,) in self._all('SELECT terms FROM passages ORDER BY "row"'):
            yield terms.split()

    def mask(self, where: Where) -> npt.NDArray[np.bool_]:
        """`(rows,)`: True where every key of the metadata has the value, or one of the values, asked for.

        `document_id` and `title` match the document. BM25 and dense search obey the same mask, and so cannot disagree.
        """
        with self._lock:
            rows = self._rows = self._rows or self._db.execute("SELECT count(*) FROM passages").fetchone()[0]
        mask = np.ones(rows, dtype=np.bool_)
        for key, wanted in where.items():
            groups = self._groups(key)
            matching = np.zeros(rows, dtype=np.bool_)
            for value in wanted if isinstance(wanted, list | tuple | set) else [wanted]:
                matching[groups.get(_typed(value), [])] = True
            mask &= matching
        return mask

    def metadata_values(self, key: str) -> list[MetadataValue]:
        """Every value that passages have of a metadata key."""
        return [value for _, value in self._groups(key)]

    def _groups(self, key: str) -> dict[tuple[bool, Any], list[int]]:
        """Rows by the value, typed, that they have of a metadata key."""
        if key not in self._values:
            path = '$."' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'
            values = self._all('SELECT metadata -> ?, "row" FROM passages ORDER BY "row"', (path,))
            rows = [(json.loads(value), row) for value, row in values if value is not None]
            if not rows and key in ("document_id", "title"):
                rows = [(value, row) for value, row in self._all(f'SELECT {key}, "row" FROM passages')]
            groups: dict[tuple[bool, Any], list[int]] = {}
            for value, row in rows:
                groups.setdefault(_typed(value), []).append(row)
            self._values[key] = groups
        return self._values[key]


def _named(metadata: str) -> tuple[str, str, str]:
    """The source, the format and the labels of a document."""
    values = json.loads(metadata)
    return str(values.get("source", "")), str(values.get("format", "")), str(values.get(LABELS, ""))


def passage_of(row: Sequence[Any]) -> Passage:
    """A passage from a row of `PASSAGE_COLUMNS`."""
    name, document_id, title, text, start, end, heading, page, metadata, boxes = row
    path = () if heading == "[]" else tuple(json.loads(heading))
    own: Metadata = {} if metadata == "{}" else json.loads(metadata)
    places = () if boxes == "[]" else tuple(PlacedText(start, end, *box) for box in json.loads(boxes))
    return Passage(name, document_id, title, text, start, end, path, page, own, places)


_SCHEMA = """
CREATE TABLE files (
    path TEXT PRIMARY KEY, document_id TEXT NOT NULL, fingerprint TEXT NOT NULL, warning TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE documents (
    id TEXT PRIMARY KEY, path TEXT NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL, sections TEXT NOT NULL,
    metadata TEXT NOT NULL, verbatim INTEGER NOT NULL, content_hash TEXT NOT NULL, language TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX documents_by_path ON documents (path);
CREATE TABLE passages (
    "row" INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, document_id TEXT NOT NULL, place INTEGER NOT NULL,
    title TEXT NOT NULL, text TEXT NOT NULL, "start" INTEGER NOT NULL, "end" INTEGER NOT NULL,
    heading TEXT NOT NULL, page INTEGER, metadata TEXT NOT NULL, key BLOB NOT NULL, terms TEXT NOT NULL,
    boxes TEXT NOT NULL
);
CREATE INDEX passages_by_document ON passages (document_id, place);
"""
_STORED = f"{PASSAGE_COLUMNS}, place, key, terms"


class RecordsWriter:
    """Gathers what a new version holds, in a scratch file beside it; `finish` writes the records.

    Everything starts from the records of the version before, if there is one. `language` is `index.language`.
    """

    def __init__(self, scratch: Path, before: Path | None, language: str = ENGLISH) -> None:
        self._scratch = scratch
        self._language = language
        self._db = sqlite3.connect(scratch, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.executescript(_SCHEMA)
        if before is not None:
            self._copy(before)

    def _copy(self, before: Path) -> None:
        self._db.execute("ATTACH ? AS before", (str(before),))
        self._db.execute("BEGIN")
        for table in ("files", "documents", "passages"):
            self._db.execute(f"INSERT INTO {table} SELECT * FROM before.{table}")
        self._db.execute("COMMIT")
        self._db.execute("DETACH before")

    def stem_again(self) -> None:
        """Give every passage the terms of the language that its document is in by the setting."""
        self._db.execute("BEGIN")
        for name, text, before in self._db.execute("SELECT id, text, language FROM documents").fetchall():
            language = analysis(self._language, text)
            if language == before:
                continue
            self._db.execute("UPDATE documents SET language = ? WHERE id = ?", (language, name))
            matching = self._db.execute(f"SELECT {PASSAGE_COLUMNS} FROM passages WHERE document_id = ?", (name,))
            rows = matching.fetchall()
            terms = (
                (" ".join(tokenize(passage.indexed_text, (language,))), passage.id) for passage in map(passage_of, rows)
            )
            self._db.executemany("UPDATE passages SET terms = ? WHERE id = ?", terms)
        self._db.execute("COMMIT")

    def languages(self) -> tuple[str, ...]:
        """Languages whose stems the passages hold."""
        return tuple(row[0] for row in self._db.execute("SELECT DISTINCT language FROM documents ORDER BY 1"))

    def close(self) -> None:
        """Throw the scratch file away."""
        self._db.close()
        self._scratch.unlink(missing_ok=True)

    def files(self) -> dict[str, FileRecord]:
        """Files recorded so far, by path."""
        rows = self._db.execute("SELECT path, document_id, fingerprint, warning FROM files")
        return {row[0]: FileRecord(*row) for row in rows}

    def owners(self) -> dict[str, str]:
        """The file each document came from, by document id."""
        return dict(self._db.execute("SELECT id, path FROM documents"))

    def documents_of(self, path: str) -> list[str]:
        return [row[0] for row in self._db.execute("SELECT id FROM documents WHERE path = ? ORDER BY id", (path,))]

    def passages_of(self, path: str) -> int:
        """How many passages a file gave."""
        (count,) = self._db.execute(
            "SELECT count(*) FROM passages WHERE document_id IN (SELECT id FROM documents WHERE path = ?)", (path,)
        ).fetchone()
        return int(count)

    def remove_document(self, document_id: str) -> None:
        self._db.execute("DELETE FROM passages WHERE document_id = ?", (document_id,))
        self._db.execute("DELETE FROM documents WHERE id = ?", (document_id,))

    def remove_file(self, path: str) -> None:
        """Forget a file and its documents."""
        for document_id in self.documents_of(path):
            self.remove_document(document_id)
        self._db.execute("DELETE FROM files WHERE path = ?", (path,))

    def add_file(self, file: FileRecord) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)",
            (file.path, file.document_id, file.fingerprint, file.warning),
        )

    def add_document(self, document: Document, path: str, passages: Sequence[Passage]) -> int:
        """Put a document in the place of the one of its id. Returns how many passages were left out.

        A passage is left out if its id names another one already.
        """
        self.remove_document(document.id)
        language = analysis(self._language, document.text)
        self._db.execute("BEGIN")
        self._db.execute(
            "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                document.id,
                path,
                document.title,
                document.text,
                _json([section.values for section in document.sections]),
                _json(dict(document.metadata)),
                document.verbatim,
                document.content_hash,
                language,
            ),
        )
        added = self._db.executemany(
            f"INSERT OR IGNORE INTO passages ({_STORED}) VALUES ({', '.join('?' * 13)})",
            (_values(passage, place, language) for place, passage in enumerate(passages)),
        ).rowcount
        self._db.execute("COMMIT")
        return len(passages) - max(0, added)

    def count(self) -> tuple[int, int]:
        """Documents and passages."""
        query = "SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM passages)"
        documents, passages = self._db.execute(query).fetchone()
        return int(documents), int(passages)

    def has_terms(self) -> bool:
        """Whether BM25 has anything to index."""
        return self._db.execute("SELECT 1 FROM passages WHERE terms <> '' LIMIT 1").fetchone() is not None

    def keys(self) -> list[bytes]:
        """Return the embedding keys of all passages, in the order of the rows that `finish` numbers."""
        return [row[0] for row in self._db.execute("SELECT key FROM passages ORDER BY document_id, place")]

    def texts_by_key(self) -> Iterator[tuple[bytes, str]]:
        """Return the indexed text to embed for every key."""
        for row in self._db.execute(f"SELECT key, {PASSAGE_COLUMNS} FROM passages GROUP BY key ORDER BY key"):
            yield row[0], passage_of(row[1:]).indexed_text

    def finish(self, path: Path) -> None:
        """Write the records of the new version, rows numbered; the scratch file stays until `close`."""
        self._db.execute("ATTACH ? AS finished", (str(path),))
        self._db.execute("PRAGMA finished.journal_mode = OFF")
        self._db.executescript(re.sub("CREATE (TABLE|INDEX) ", r"\g<0>finished.", _SCHEMA))
        self._db.execute("BEGIN")
        self._db.execute("INSERT INTO finished.files SELECT * FROM main.files ORDER BY path")
        self._db.execute("INSERT INTO finished.documents SELECT * FROM main.documents ORDER BY id")
        self._db.execute(
            f'INSERT INTO finished.passages ("row", {_STORED})'
            f" SELECT row_number() OVER (ORDER BY document_id, place) - 1, {_STORED} FROM main.passages"
            " ORDER BY document_id, place"
        )
        self._db.execute("COMMIT")
        self._db.execute("DETACH finished")


def _typed(value: Any) -> tuple[bool, Any]:
    """Keeps True apart from 1, which Python takes for equal."""
    return isinstance(value, bool), value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=dict)


def _values(passage: Passage, place: int, language: str) -> tuple[Any, ...]:
    text = passage.indexed_text
    return (
        passage.id,
        passage.document_id,
        passage.title,
        passage.text,
        passage.start,
        passage.end,
        _json(passage.heading),
        passage.page,
        _json(dict(passage.metadata)),
        _json([box[2:] for box in passage.boxes]),
        place,
        embedding_key(text),
        " ".join(tokenize(text, (language,))),
    )
