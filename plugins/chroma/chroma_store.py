"""Vectors on a Chroma server: the one at `index.store_url`, or one of our own over the collection's folder.

Chroma holds ids and vectors, and nothing else holds the vectors then. A version's collection is never changed once the
version serves, so any number of processes may read it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import numpy as np

from index.encoders import Vectors
from index.errors import CollectionCorrupt, StorageError, StoreUnavailable
from index.stores import EngineFailures, Mask, Neighbours, Take
from plugins.chroma.local_server import local_server
from text.modules import need_extra

if TYPE_CHECKING:
    from chromadb.api.client import Client


EF_SEARCH = 300
"""Candidates the graph search keeps. Against an exact scan of 15,000 real passages it finds 99.6 % of the
nearest 10 and 98.8 % of the nearest 100; Chroma's default of 100 finds 97.8 % and 92.8 %."""

_HNSW = {"hnsw": {"space": "ip", "ef_search": EF_SEARCH, "ef_construction": 100, "max_neighbors": 16}}
# Below what any Chroma takes at once.
_BATCH = 1000


class ChromaStore:
    """A `VectorStore` on the server at `url`, or on a local one if it is empty."""

    def __init__(self, url: str) -> None:
        need_extra("chroma", "The vector store Chroma", "chromadb", error=StoreUnavailable)
        self._url = url

    def write(self, folder: Path, ids: Sequence[str], dimension: int, take: Take) -> None:
        with closing(_Connection(folder, self._url)) as chroma, chroma.failures.writing():
            chroma.create()
            for start in range(0, len(ids), _BATCH):
                rows = range(start, min(start + _BATCH, len(ids)))
                chroma.collection.upsert(ids=list(ids[start : rows.stop]), embeddings=take(rows))

    def open(self, folder: Path, ids: Sequence[str], dimension: int) -> OpenChroma:
        connection = _Connection(folder, self._url)
        try:
            with connection.failures.reading():
                connection.get()
                count = connection.collection.count()
            if count != len(ids):
                raise CollectionCorrupt(f"{connection.where} holds {count} vectors and not {len(ids)}: index again")
            vectors = OpenChroma(connection, ids)
            (nearest,) = vectors.search(np.ones((1, dimension), dtype=np.float32), 10)
            if len(nearest.rows) < min(10, len(ids)):
                raise CollectionCorrupt(f"{connection.where} does not find what it holds: index again")
            return vectors
        except BaseException:
            connection.close()
            raise

    def delete(self, folder: Path) -> None:
        with suppress(StorageError), closing(_Connection(folder, self._url)) as chroma, chroma.failures.writing():
            chroma.client.delete_collection(chroma.name)


class OpenChroma:
    def __init__(self, connection: _Connection, ids: Sequence[str]) -> None:
        self._connection = connection
        self._ids = ids
        self._row = {name: row for row, name in enumerate(ids)}

    def search(self, vectors: Vectors, k: int, mask: Mask | None = None) -> list[Neighbours]:
        allowed = None if mask is None or mask.all() else [self._ids[row] for row in np.flatnonzero(mask).tolist()]
        k = min(k, len(self._ids if allowed is None else allowed))
        if not len(vectors) or k < 1:
            return [Neighbours([], []) for _ in vectors]
        reply = self._connection.asked(
            lambda collection: collection.query(
                query_embeddings=vectors, n_results=k, ids=allowed, include=["distances"]
            )
        )
        pairs = zip(reply["ids"], reply["distances"], strict=True)
        return [self._neighbours(names, distances) for names, distances in pairs]

    def _neighbours(self, names: Sequence[str], distances: Sequence[float]) -> Neighbours:
        try:
            order = sorted((distance, self._row[name]) for name, distance in zip(names, distances, strict=True))
        except KeyError as error:
            raise CollectionCorrupt(
                f"{self._connection.where} holds a passage that the records do not ({error}): index again"
            ) from error
        return Neighbours([row for _, row in order], [1.0 - distance for distance, _ in order])

    def take(self, rows: Sequence[int]) -> Vectors:
        names = [self._ids[row] for row in rows]
        reply = self._connection.asked(
            lambda collection: collection.get(ids=list(dict.fromkeys(names)), include=["embeddings"])
        )
        place = {name: number for number, name in enumerate(reply["ids"])}
        try:
            order = [place[name] for name in names]
        except KeyError as error:
            raise CollectionCorrupt(f"{self._connection.where} has lost a passage ({error}): index again") from error
        return np.asarray(reply["embeddings"], dtype=np.float32)[order]

    def close(self) -> None:
        self._connection.close()


class _Connection:
    """A version's collection, which `get` or `create` opens."""

    collection: Any = None
    _client: Client | None = None

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = None if url else folder.parents[1]
        # Versions share a server but no folder: the whole path tells them apart.
        home = hashlib.sha256(str(folder.parent.absolute()).encode()).hexdigest()[:12]
        self.name = f"anaphora-{home}-{folder.name}"
        self._reach(url or local_server(folder.parents[1]))

    def _reach(self, where: str) -> None:
        self.where, self._client = where, None
        self.failures = EngineFailures("Chroma", where, where, _raised, _answered)

    def asked(self, ask: Callable[[Any], Any]) -> Any:
        """Return the answer of the collection. A local server that went away with another process is started anew."""
        try:
            with self.failures.reading():
                return ask(self.collection)
        except StorageError:
            if self._folder is None:
                raise
        self.close()
        self._reach(local_server(self._folder))
        with self.failures.reading():
            self.get()
            return ask(self.collection)

    @property
    def client(self) -> Client:
        if self._client is None:
            import chromadb
            from chromadb.config import Settings

            address, settings = urlsplit(self.where), Settings(anonymized_telemetry=False)
            secure = address.scheme == "https"
            host, port = address.hostname or "localhost", address.port or (443 if secure else 8000)
            self._client = cast("Client", chromadb.HttpClient(host, port, ssl=secure, settings=settings))
        return self._client

    def get(self) -> None:
        self.collection = self.client.get_collection(self.name, embedding_function=None)

    def create(self) -> None:
        options: dict[str, Any] = {"embedding_function": None, "configuration": _HNSW}
        self.collection = self.client.create_collection(self.name, **options)

    def close(self) -> None:
        if self._client is None:
            return
        # Chroma's HTTP client, which no other client shares, leaves its connections open.
        parts: list[Any] = [self._client, self._client._admin_client]
        sessions = [getattr(part._server, "_session", None) for part in parts]
        self._client.close()
        for session in sessions:
            if session is not None:
                session.close()


def _raised() -> tuple[type[Exception], ...]:
    """Return the exceptions that Chroma and its transport raise."""
    import httpx
    from chromadb.errors import ChromaError

    return ChromaError, httpx.HTTPError, OSError, ValueError


def _answered(error: Exception) -> bool:
    from chromadb.errors import ChromaError

    return isinstance(error, ChromaError)
