"""Vectors in Milvus, on a server or a cluster: a version is a Milvus collection."""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from index.encoders import Vectors
from index.errors import CollectionCorrupt, StorageError, StoreUnavailable
from index.stores import EngineFailures, Mask, Neighbours, Take
from text.modules import need_extra

if TYPE_CHECKING:
    from pymilvus import MilvusClient


TOKEN = "MILVUS_TOKEN"
"""Environment variable with `user:password` or the API key of a server: no secret belongs into a manifest."""

EXACT_ROWS = 60_000
"""Up to so many passages all are compared, which is no slower than a graph and finds the nearest under any filter."""

EF_SEARCH = 300
"""Candidates the graph search keeps beyond that, as for Chroma."""

_HNSW = {"index_type": "HNSW", "metric_type": "IP", "params": {"M": 16, "efConstruction": 100}}
_FLAT = {"index_type": "FLAT", "metric_type": "IP", "params": {}}
_BATCH = 1000
# A server that does not answer is asked again by pymilvus, for minutes if it may.
_PATIENCE = 15.0
# What one search of Milvus may answer at most.
_MOST = 16384


class MilvusStore:
    """A `VectorStore`; `url` is a server's, such as `http://localhost:19530`."""

    def __init__(self, url: str) -> None:
        need_extra("milvus", "The vector store Milvus", "pymilvus", error=StoreUnavailable)
        if not url:
            raise StoreUnavailable("the vector store Milvus needs the address of a server in index.store_url")
        self._url = url

    def write(self, folder: Path, ids: Sequence[str], dimension: int, take: Take) -> None:
        with closing(_MilvusVersion(folder, self._url)) as milvus, milvus.failures.writing():
            milvus.create(dimension, _FLAT if len(ids) <= EXACT_ROWS else _HNSW)
            milvus.fill(len(ids), take)

    def open(self, folder: Path, ids: Sequence[str], dimension: int) -> OpenMilvus:
        version = _MilvusVersion(folder, self._url)
        try:
            with version.failures.reading():
                count = version.load()
            if count != len(ids):
                raise CollectionCorrupt(f"{version.where} holds {count} vectors and not {len(ids)}: index again")
            return OpenMilvus(version, count)
        except BaseException:
            version.close()
            raise

    def delete(self, folder: Path) -> None:
        with suppress(StorageError), closing(_MilvusVersion(folder, self._url)) as milvus, milvus.failures.writing():
            milvus.drop()


class OpenMilvus:
    """An `OpenVectors`."""

    def __init__(self, version: _MilvusVersion, rows: int) -> None:
        self.version = version
        self._rows = rows

    def search(self, vectors: Vectors, k: int, mask: Mask | None = None) -> list[Neighbours]:
        k = min(k, self._rows if mask is None else int(mask.sum()), _MOST)
        if not len(vectors) or k < 1:
            return [Neighbours([], []) for _ in vectors]
        results = self.version.search(list(vectors), k, mask)
        return [Neighbours([row for _, row in line], [-less for less, _ in line]) for line in results]

    def take(self, rows: Sequence[int]) -> Vectors:
        vectors: dict[int, Any] = {}
        wanted = sorted(set(map(int, rows)))
        with self.version.failures.reading():
            for start in range(0, len(wanted), _BATCH):
                vectors |= self.version.vectors(wanted[start : start + _BATCH])
        try:
            return np.asarray([vectors[row] for row in rows], dtype=np.float32)
        except KeyError as error:
            raise CollectionCorrupt(f"{self.version.where} has lost passage {error}: index again") from error

    def close(self) -> None:
        self.version.close()


class _MilvusVersion:
    """The Milvus collection of a version, and the connection to it."""

    def __init__(self, folder: Path, url: str) -> None:
        self.where = url
        self.failures = EngineFailures("Milvus", url, url, _raised, _answered, (OSError,))
        self._folder = folder
        self._opened: MilvusClient | None = None

    @property
    def _client(self) -> MilvusClient:
        if self._opened is None:
            # It writes each error down with its traceback before it raises it.
            logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
            from pymilvus import MilvusClient

            self._opened = MilvusClient(self.where, token=os.environ.get(TOKEN, ""))
        return self._opened

    @property
    def name(self) -> str:
        """Versions share a server but no folder, so only the whole path tells them apart."""
        home = hashlib.sha256(str(self._folder.parent.absolute()).encode()).hexdigest()[:12]
        return re.sub(r"\W", "_", f"anaphora_{home}_{self._folder.name}")

    def create(self, dimension: int, kind: dict[str, Any]) -> None:
        from pymilvus import DataType, MilvusClient

        schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("row", DataType.INT64, is_primary=True)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
        index = MilvusClient.prepare_index_params()
        index.add_index("vector", **kind)
        # A killed writer may have left one.
        self.drop()
        self._client.create_collection(self.name, schema=schema, index_params=index, consistency_level="Strong")

    def fill(self, count: int, take: Take) -> None:
        """Insert the vectors of all rows and bring them to the disk."""
        for start in range(0, count, _BATCH):
            rows = range(start, min(start + _BATCH, count))
            vectors = np.asarray(take(rows), dtype=np.float32)
            lines = [{"row": row, "vector": vector} for row, vector in zip(rows, vectors, strict=True)]
            self._client.insert(self.name, lines)
        self._client.flush(self.name)

    def load(self) -> int:
        """Make ready to be searched; how many rows there are."""
        self._client.load_collection(self.name, timeout=_PATIENCE * 20)
        return int(self._client.get_collection_stats(self.name)["row_count"])

    def search(self, vectors: list[Any], k: int, mask: Mask | None) -> list[list[tuple[float, int]]]:
        """For each vector its best rows as `(negative score, row)`, best first, ties by row."""
        with self.failures.reading():
            reply = self._client.search(
                self.name,
                vectors,
                filter="" if mask is None else _filter(mask),
                limit=k,
                output_fields=["row"],
                search_params={"metric_type": "IP", "params": {"ef": max(k, EF_SEARCH)}},
                anns_field="vector",
                timeout=_PATIENCE,
            )
        return [sorted((-float(hit["distance"]), int(hit["row"])) for hit in line) for line in reply]

    def vectors(self, rows: list[int]) -> dict[int, Any]:
        rows_stored = self._client.get(self.name, ids=rows, output_fields=["vector"], timeout=_PATIENCE)
        return {line["row"]: line["vector"] for line in rows_stored}

    def drop(self) -> None:
        if self._client.has_collection(self.name):
            self._client.drop_collection(self.name)

    def close(self) -> None:
        client, self._opened = self._opened, None
        if client is not None:
            client.close()


def _filter(mask: Mask) -> str:
    """The rows of a mask as ranges: a document's lie together."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    ranges = [f"(row >= {first} and row < {last})" for first, last in edges.reshape(-1, 2).tolist()]
    return " or ".join(ranges)


def _raised() -> tuple[type[Exception], ...]:
    import grpc
    from pymilvus.exceptions import MilvusException

    return MilvusException, grpc.RpcError, ValueError


def _answered(error: Exception) -> bool:
    """Whether a server said so, and not the way to it: the codes of servers begin at 100."""
    from pymilvus.exceptions import MilvusException

    return error.code >= 100 if isinstance(error, MilvusException) else isinstance(error, ValueError)
