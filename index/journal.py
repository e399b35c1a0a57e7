"""Where a new version's vectors come from: the version before, and the journal of the run.

The journal keeps every vector as soon as it is computed, so that a run that was killed costs nothing but what it had
in hand. Each has a digest, and one that a disk has changed is computed again. Once a version is written its vectors
lie in its store alone.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from index.encoders import Vectors
from index.stores import OpenVectors


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
            self.delete_files()
            self._db = self._open()

    def _open(self) -> sqlite3.Connection:
        # Used by one thread at a time, which need not be the same one.
        db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
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
            (
                (self._encoder, key, data + _digest(key, data))
                for key, data in zip(keys, (vector.tobytes() for vector in vectors), strict=True)
            ),
        )
        self._db.execute("COMMIT")

    def keys(self) -> set[bytes]:
        """Keys whose vectors this encoder has computed. Reads them all."""
        try:
            rows = self._db.execute("SELECT key, vector FROM vectors WHERE encoder = ?", (self._encoder,))
            return {key for key, kept in rows if self._vector(key, kept)}
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            # Torn by a power cut or damaged: what was in it can be computed again.
            self._db.close()
            self.delete_files()
            self._db = self._open()
            return set()

    def _vector(self, key: bytes, kept: bytes) -> bytes:
        """The vector in what is kept for a key; empty where it is not as it was written."""
        size = self._dimension * np.dtype(np.float32).itemsize
        vector, digest = kept[:size], kept[size:]
        # Earlier programs wrote no digest.
        sound = len(vector) == size and (not digest or digest == _digest(key, vector))
        return vector if sound else b""

    def get(self, key: bytes) -> Vectors:
        """One vector, `(dimension,)`; raises KeyError."""
        row = self._db.execute(
            "SELECT vector FROM vectors WHERE encoder = ? AND key = ?", (self._encoder, key)
        ).fetchone()
        if row is None or not (vector := self._vector(key, row[0])):
            raise KeyError(key)
        return np.frombuffer(vector, dtype=np.float32)

    def close(self) -> None:
        self._db.close()

    def delete_files(self) -> None:
        """Remove the journal: the version that was written from it has all its vectors."""
        for suffix in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)


def _digest(key: bytes, vector: bytes) -> bytes:
    return hashlib.blake2b(key + vector, digest_size=8).digest()


class VectorSource:
    """The vector of every key: from the version before, where it is open, or from the journal."""

    def __init__(self, journal: VectorJournal, keys_before: Sequence[bytes], before: OpenVectors | None) -> None:
        self._journal = journal
        self._before = before
        self._row = {key: row for row, key in enumerate(keys_before)} if before is not None else {}
        self.known = self._row.keys() | journal.keys()

    def take(self, keys: Sequence[bytes]) -> Vectors:
        """Vectors of these keys, `(len(keys), dimension)`, in this order; of at least one."""
        old = [place for place, key in enumerate(keys) if key in self._row]
        new = [place for place, key in enumerate(keys) if key not in self._row]
        parts = [np.stack([self._journal.get(keys[place]) for place in new])] if new else []
        if old and self._before is not None:
            parts.append(self._before.take([self._row[keys[place]] for place in old]))
        taken = np.concatenate(parts)
        result = np.empty_like(taken)
        result[new + old] = taken
        return result
