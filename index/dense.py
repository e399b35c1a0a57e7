"""Nearest passages by vector, in Chroma: in the version's own folder, or on a Chroma server.

Chroma holds ids and vectors only; texts, metadata and filters are the collection's. A version's
store is never changed once the version serves, so any number of processes may read it.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import numpy as np

from index.encoders import Vectors
from index.errors import CollectionCorrupt, StorageError

if TYPE_CHECKING:
    from chromadb.api.client import Client

EF_SEARCH = 200
"""Candidates the graph search keeps: recall@100 above .99 on real sentences; never below the k asked for."""

_HNSW = {"hnsw": {"space": "ip", "ef_search": EF_SEARCH, "ef_construction": 200, "max_neighbors": 16}}
_NAME = "passages"
_REBUILD_SHARE = 0.3


class DenseStore:
    """The vectors of one version in Chroma; safe to search from several threads at once."""

    def __init__(self, folder: Path, url: str, version: str) -> None:
        self._where = url or str(folder)
        self._client = _client(folder, url)
        self._name = collection_name(url, folder, version)
        self._collection: Any = None

    def open(self) -> DenseStore:
        """Find the vectors; raises CollectionCorrupt where they are gone."""
        with self._errors():
            self._collection = self._client.get_collection(self._name, embedding_function=None)
        return self

    def create(self) -> DenseStore:
        """Make an empty store in the place of whatever has this version's name."""
        with self._errors():
            if self._name in {collection.name for collection in self._client.list_collections()}:
                self._client.delete_collection(self._name)
            self._collection = self._client.create_collection(
                self._name,
                embedding_function=None,
                configuration=_HNSW,  # type: ignore[arg-type]
            )
        return self

    @contextmanager
    def _errors(self) -> Iterator[None]:
        from chromadb.errors import ChromaError

        try:
            yield
        except (ChromaError, OSError, ValueError) as error:
            raise CollectionCorrupt(f"the vectors in {self._where} cannot be read ({error}): index again") from error

    def search(self, vectors: Vectors, k: int) -> list[list[str]]:
        """Ids of the `k` passages nearest to each vector, nearest first."""
        if not len(vectors) or k < 1:
            return [[] for _ in vectors]
        with self._errors():
            found = self._collection.query(query_embeddings=vectors, n_results=k, include=[])
        ids: list[list[str]] = found["ids"]
        return ids

    def count(self) -> int:
        with self._errors():
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
        self._client.close()


def build_store(folder: Path, url: str, version: str, ids: Sequence[str], chunks: Iterator[Vectors]) -> None:
    """Write all vectors, chunk by chunk in the order of `ids`, into a new store."""
    store = DenseStore(folder, url, version).create()
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
        store = DenseStore(folder, "", version).open()
        try:
            store.remove(gone)
            store.put(ids, vectors)
            good = store.count() == total
        finally:
            store.close()
    except CollectionCorrupt:
        good = False
    if not good:
        shutil.rmtree(folder)
    return good


def delete_store(url: str, folder: Path, version: str) -> None:
    """Remove a version's vectors from a Chroma server; those in a folder go with the folder."""
    from chromadb.errors import ChromaError

    if not url:
        return
    try:
        client = _client(folder, url)
    except (StorageError, CollectionCorrupt):
        return  # the server is away: an orphan there harms nobody
    try:
        client.delete_collection(collection_name(url, folder, version))
    except (ChromaError, ValueError, OSError):
        pass
    finally:
        client.close()


def collection_name(url: str, folder: Path, version: str) -> str:
    """Versions share a server but no folder, so only there must the name tell them apart."""
    if not url:
        return _NAME
    home = hashlib.sha256(str(folder.absolute().parent.parent).encode()).hexdigest()[:12]
    return f"anaphora-{home}-{version}"


def exact_search(
    matrix: Vectors, vectors: Vectors, k: int, rows: np.ndarray[Any, np.dtype[np.int64]]
) -> list[list[int]]:
    """Rows of the `k` nearest among `rows` (ascending) to each vector, by scanning them all; ties by row."""
    if not len(rows) or k < 1:
        return [[] for _ in vectors]
    scores = vectors @ (matrix if len(rows) == len(matrix) else matrix[rows]).T
    return [rows[np.argsort(-line, kind="stable")[:k]].tolist() for line in scores]


def _client(folder: Path, url: str) -> Client:
    import chromadb
    from chromadb.config import Settings
    from chromadb.errors import ChromaError

    settings = Settings(anonymized_telemetry=False)
    try:
        if not url:
            client = chromadb.PersistentClient(str(folder), settings=settings)
            return cast("Client", client)
        address = urlsplit(url)
        secure = address.scheme == "https"
        port = address.port or (443 if secure else 8000)
        client = chromadb.HttpClient(address.hostname or "localhost", port, ssl=secure, settings=settings)
        return cast("Client", client)
    except (ChromaError, OSError, ValueError) as error:
        place = f"the Chroma server at {url}: start it, or correct `index.chroma_url`" if url else str(folder)
        raise StorageError(f"cannot open {place} ({error})") from error


@contextmanager
def _write_errors(where: str) -> Iterator[None]:
    from chromadb.errors import ChromaError

    try:
        yield
    except (ChromaError, OSError, ValueError) as error:
        raise StorageError(
            f"writing vectors to {where} failed ({error}); the last good version still serves; "
            "look for room on the disk and index again"
        ) from error
