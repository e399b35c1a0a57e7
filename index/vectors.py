"""Passage vectors on disk: the matrix of a version, and the journal of an unfinished run.

The matrix (`vectors.npy`, row by row as the records number passages) is where the next version finds
the vectors of what did not change, where filtered searches look, and what dense stores are built from.
The journal keeps every vector as soon as it is computed, so that a run that was killed costs nothing
but what it had in hand.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from index.encoders import Vectors
from index.errors import CollectionCorrupt

_CHUNK = 4096


def write_matrix(path: Path, dimension: int, rows: int, chunks: Iterator[Vectors]) -> None:
    """Write `(rows, dimension)` float32 from its chunks.

    Plain writes, not a memory map: a full disk is then an OSError instead of a signal that kills.
    """
    with path.open("wb") as file:
        _write_header(file, (rows, dimension))
        for chunk in chunks:
            file.write(np.ascontiguousarray(chunk, dtype="<f4").data)


def _write_header(file: BinaryIO, shape: tuple[int, int]) -> None:
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})


def open_matrix(path: Path, rows: int, dimension: int) -> Vectors:
    """The matrix, memory-mapped and read-only; raises CollectionCorrupt."""
    try:
        # An empty file cannot be mapped.
        matrix: Vectors = np.load(path, mmap_mode="r" if rows else None, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CollectionCorrupt(f"{path} cannot be read ({error}): index again") from error
    if matrix.shape != (rows, dimension):
        raise CollectionCorrupt(f"{path} holds {matrix.shape} and not {(rows, dimension)}: index again")
    return matrix


class VectorJournal:
    """Vectors by encoder and embedding key, on disk as soon as they are added."""

    def __init__(self, path: Path, encoder: str, dimension: int) -> None:
        self._path = path
        self._encoder = encoder
        self._dimension = dimension
        try:
            self._db = self._open()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            # Torn by a power cut: its vectors can be computed again.
            self.delete_files()
            self._db = self._open()

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, isolation_level=None)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute(
                "CREATE TABLE IF NOT EXISTS vectors (encoder TEXT, key BLOB, vector BLOB, PRIMARY KEY (encoder, key))"
                " WITHOUT ROWID"
            )
        except sqlite3.DatabaseError:
            db.close()
            raise
        return db

    def add(self, keys: Sequence[bytes], vectors: Vectors) -> None:
        """Keep these vectors, `(len(keys), dimension)`."""
        self._db.execute("BEGIN")
        self._db.executemany(
            "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)",
            ((self._encoder, key, vector.tobytes()) for key, vector in zip(keys, vectors, strict=True)),
        )
        self._db.execute("COMMIT")

    def keys(self) -> set[bytes]:
        """Keys whose vectors this encoder has computed."""
        size = self._dimension * np.dtype(np.float32).itemsize
        rows = self._db.execute(
            "SELECT key FROM vectors WHERE encoder = ? AND length(vector) = ?", (self._encoder, size)
        )
        return {row[0] for row in rows}

    def get(self, key: bytes) -> Vectors:
        """One vector, `(dimension,)`; raises KeyError."""
        row = self._db.execute(
            "SELECT vector FROM vectors WHERE encoder = ? AND key = ?", (self._encoder, key)
        ).fetchone()
        if row is None:
            raise KeyError(key)
        return np.frombuffer(row[0], dtype=np.float32)

    def close(self) -> None:
        self._db.close()

    def delete_files(self) -> None:
        """Remove the journal: the version that was written from it has all its vectors."""
        for suffix in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)


class VectorSource:
    """The vector of every key: from the version before, or from the journal."""

    def __init__(self, journal: VectorJournal, keys_before: Sequence[bytes], matrix_before: Vectors | None) -> None:
        self._journal = journal
        self._matrix = matrix_before
        self._row = {key: row for row, key in enumerate(keys_before)} if matrix_before is not None else {}
        self.known = self._row.keys() | journal.keys()

    def chunks(self, keys: Sequence[bytes]) -> Iterator[Vectors]:
        """Vectors of these keys, in this order, some thousands at a time."""
        for start in range(0, len(keys), _CHUNK):
            yield np.stack([self._vector(key) for key in keys[start : start + _CHUNK]])

    def _vector(self, key: bytes) -> Vectors:
        row = self._row.get(key)
        if row is None or self._matrix is None:
            return self._journal.get(key)
        vector: Vectors = self._matrix[row]
        return vector
