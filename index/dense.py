"""Nearest passages by vector, in Chroma: in the version's own folder, or on a Chroma server.

Chroma holds ids and vectors only; texts, metadata and filters are the collection's. A version's
store is never changed once the version serves, so any number of processes may read it.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from index.encoders import Vectors
from index.errors import CollectionCorrupt, StorageError

if TYPE_CHECKING:
    from chromadb.api.client import Client

EF_SEARCH = 300
"""Candidates the graph search keeps. Against an exact scan of 15,000 real passages it finds 99.6 % of the
nearest 10 and 98.8 % of the nearest 100; Chroma's default of 100 finds 97.8 % and 92.8 %."""

_HNSW = {"hnsw": {"space": "ip", "ef_search": EF_SEARCH, "ef_construction": 100, "max_neighbors": 16}}
_LOCAL = "passages"
_REBUILD_SHARE = 0.3


class DenseStore:
    """The vectors of one version in Chroma; safe to search from several threads at once.

    Get one by `open` or by `create`.
    """

    def __init__(self, client: Client, collection: Any, where: str) -> None:
        self._client = client
        self._collection = collection
        self._where = where

    @classmethod
    def open(cls, folder: Path, url: str, version: str) -> DenseStore:
        """Find a version's vectors; raises CollectionCorrupt, or StorageError where the server does not answer."""
        where = url or str(folder)
        if not url and not folder.is_dir():
            raise CollectionCorrupt(f"the vectors in {folder} are missing: index again")
        with _read_errors(where):
            client = _client(folder, url)
            try:
                return cls(client, client.get_collection(_name(url, folder, version), embedding_function=None), where)
            except BaseException:
                _close(client)
                raise

    @classmethod
    def create(cls, folder: Path, url: str, version: str) -> DenseStore:
        """Make an empty store for a version that has none; raises StorageError."""
        where = url or str(folder)
        with _write_errors(where):
            client = _client(folder, url)
            try:
                collection = client.create_collection(
                    _name(url, folder, version),
                    embedding_function=None,
                    configuration=_HNSW,  # type: ignore[arg-type]
                )
            except BaseException:
                _close(client)
                raise
            return cls(client, collection, where)

    def search(self, vectors: Vectors, k: int) -> list[list[str]]:
        """Ids of the `k` passages nearest to each vector, nearest first."""
        if not len(vectors) or k < 1:
            return [[] for _ in vectors]
        with _read_errors(self._where):
            found = self._collection.query(query_embeddings=vectors, n_results=k, include=[])
        ids: list[list[str]] = found["ids"]
        return ids

    def count(self) -> int:
        with _read_errors(self._where):
            return int(self._collection.count())

    def put(self, ids: Sequence[str], vectors: Vectors) -> None:
        """Add vectors, or replace those of known ids."""
        with _write_errors(self._where):
            size = self._client.get_max_batch_size()
            for start in range(0, len(ids), size):
                self._collection.upsert(ids=list(ids[start : start + size]), embeddings=vectors[start : start + size])

    def remove(self, ids: Sequence[str]) -> None:
        with _write_errors(self._where):
            size = self._client.get_max_batch_size()
            for start in range(0, len(ids), size):
                self._collection.delete(ids=list(ids[start : start + size]))

    def close(self) -> None:
        _close(self._client)


def build_store(folder: Path, url: str, version: str, ids: Sequence[str], chunks: Iterator[Vectors]) -> None:
    """Write all vectors, chunk by chunk in the order of `ids`, into a new store."""
    store = DenseStore.create(folder, url, version)
    try:
        start = 0
        for chunk in chunks:
            store.put(ids[start : start + len(chunk)], chunk)
            start += len(chunk)
    finally:
        store.close()


def update_store(
    folder: Path, version: str, before: Path, gone: Sequence[str], ids: Sequence[str], vectors: Vectors, total: int
) -> bool:
    """Write a new local store as a copy of the one before, without `gone` and with `ids` put.

    False if that cannot be done well, and nothing is left in `folder`: the store is to be built whole.
    """
    if not before.is_dir() or len(gone) + len(ids) > _REBUILD_SHARE * max(1, total):
        return False
    shutil.copytree(before, folder)
    try:
        store = DenseStore.open(folder, "", version)
        try:
            store.remove(gone)
            store.put(ids, vectors)
        finally:
            store.close()
        good = _readable(folder, version, vectors.shape[1], total)
    except CollectionCorrupt:
        good = False
    if not good:
        shutil.rmtree(folder)
    return good


def _readable(folder: Path, version: str, dimension: int, total: int) -> bool:
    """Whether a store, opened afresh, answers and holds what it should: a copy can be torn, for a reader
    of the version before may be opening it, and Chroma writes a little when it opens a store."""
    store = DenseStore.open(folder, "", version)
    try:
        found = store.search(np.ones((1, dimension), dtype=np.float32), 10)
        return store.count() == total and len(found[0]) == min(10, total)
    finally:
        store.close()


def delete_store(url: str, folder: Path, version: str) -> None:
    """Remove a version's vectors from a Chroma server; those in a folder go with the folder."""
    if not url:
        return
    # Where the server is away, or never had them, an orphan there harms nobody.
    with suppress(StorageError), _write_errors(url):
        client = _client(folder, url)
        try:
            client.delete_collection(_name(url, folder, version))
        finally:
            _close(client)


def _name(url: str, folder: Path, version: str) -> str:
    """Versions share a server but no folder, so only there must the name tell them apart."""
    if not url:
        return _LOCAL
    home = hashlib.sha256(str(folder.absolute().parent.parent).encode()).hexdigest()[:12]
    return f"anaphora-{home}-{version}"


def exact_search(matrix: Vectors, vectors: Vectors, k: int, rows: npt.NDArray[np.int64]) -> list[list[int]]:
    """Rows of the `k` nearest among `rows` (ascending) to each vector, by scanning them all; ties by row."""
    if not len(rows) or k < 1:
        return [[] for _ in vectors]
    scores = vectors @ (matrix if len(rows) == len(matrix) else matrix[rows]).T
    return [rows[_best(line, k)].tolist() for line in scores]


def _best(scores: npt.NDArray[np.float32], k: int) -> npt.NDArray[np.intp]:
    """Places of the `k` highest scores, highest first, ties by place."""
    if k < len(scores):
        threshold = np.partition(scores, len(scores) - k)[len(scores) - k]
        candidates = np.flatnonzero(scores >= threshold)
    else:
        candidates = np.arange(len(scores))
    return candidates[np.argsort(-scores[candidates], kind="stable")[:k]]


def _client(folder: Path, url: str) -> Client:
    import chromadb
    from chromadb.config import Settings

    settings = Settings(anonymized_telemetry=False)
    if not url:
        return cast("Client", chromadb.PersistentClient(str(folder), settings=settings))
    address = urlsplit(url)
    secure = address.scheme == "https"
    port = address.port or (443 if secure else 8000)
    client = chromadb.HttpClient(address.hostname or "localhost", port, ssl=secure, settings=settings)
    return cast("Client", client)


def _close(client: Client) -> None:
    # Chroma's HTTP client, which no other client shares, leaves its connections open.
    parts: list[Any] = [client, client._admin_client]
    sessions = [getattr(part._server, "_session", None) for part in parts]
    client.close()
    for session in sessions:
        if session is not None:
            session.close()


def _failures() -> tuple[type[Exception], ...]:
    """What Chroma and its transport raise; its local engine adds `InternalError`, a ChromaError."""
    import httpx
    from chromadb.errors import ChromaError

    return ChromaError, httpx.HTTPError, OSError, ValueError


@contextmanager
def _read_errors(where: str) -> Iterator[None]:
    try:
        yield
    except _failures() as error:
        if "://" in where and not _answered(error):
            raise StorageError(
                f"the Chroma server at {where} does not answer ({error}): start it, or correct `index.chroma_url`"
            ) from error
        raise CollectionCorrupt(f"the vectors in {where} cannot be read ({error}): index again") from error


@contextmanager
def _write_errors(where: str) -> Iterator[None]:
    try:
        yield
    except _failures() as error:
        advice = "see that the Chroma server runs" if "://" in where else "look for room on the disk"
        raise StorageError(
            f"writing vectors to {where} failed ({error}); the last good version still serves; {advice} and index again"
        ) from error


def _answered(error: Exception) -> bool:
    from chromadb.errors import ChromaError

    return isinstance(error, ChromaError)
