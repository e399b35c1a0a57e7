"""Vectors and words in Milvus: on a server or a cluster, or in the version's own folder by Milvus Lite.

Unlike the other stores it ranks by words too, so that nothing of a large collection is searched in this process. It
stores the BM25 weights that `index.ranking` computes over the whole version: an inner product with a question's terms
then equals the score of the embedded index, whatever segments and shards Milvus uses, and no analyzer of Milvus takes
part.

A version is two Milvus collections, `…_vectors` and `…_terms`. Milvus Lite locks and writes the files that it opens: a
version in the folder is opened as a copy.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from index.encoders import Vectors
from index.errors import CollectionCorrupt, StorageError, StoreUnavailable
from index.stores import EngineFailures, Mask, Neighbours, Take, Weigh
from text.modules import need_extra
from text.words import tokenize

if TYPE_CHECKING:
    from pymilvus import MilvusClient


TOKEN = "MILVUS_TOKEN"
"""Environment variable with `user:password` or the API key of a server: no secret belongs into a manifest."""

EXACT_ROWS = 60_000
"""Up to so many passages all are compared, which is no slower than a graph and finds the nearest under any filter."""

EF_SEARCH = 300
"""Candidates the graph search keeps beyond that, as for Chroma."""

Part: TypeAlias = Literal["vectors", "terms"]

_FILES = "vectors.db"
_FIELDS: dict[Part, str] = {"vectors": "vector", "terms": "weights"}
_HNSW = {"index_type": "HNSW", "metric_type": "IP", "params": {"M": 16, "efConstruction": 100}}
_FLAT = {"index_type": "FLAT", "metric_type": "IP", "params": {}}
_WORDS = {"index_type": "SPARSE_INVERTED_INDEX", "metric_type": "IP", "params": {}}
_BATCH = 1000
# A server that does not answer is asked again by pymilvus, for minutes if it may.
_PATIENCE = 15.0
# What one search of Milvus may answer at most.
_MOST = 16384


class MilvusStore:
    """A `VectorStore` and a `TermStore`; `url` is a server's, such as `http://localhost:19530`."""

    def __init__(self, url: str = "") -> None:
        need_extra("milvus", "The vector store Milvus", "pymilvus", error=StoreUnavailable)
        if not url:
            need_extra("milvus", "Milvus without a server", "milvus_lite", error=StoreUnavailable)
        self._url = url

    def write(self, folder: Path, ids: Sequence[str], dimension: int, take: Take) -> None:
        def lines(rows: range) -> list[dict[str, Any]]:
            vectors = np.asarray(take(rows), dtype=np.float32)
            return [{"row": row, "vector": vector} for row, vector in zip(rows, vectors, strict=True)]

        kind = _FLAT if len(ids) <= EXACT_ROWS else _HNSW
        MilvusVersion(folder, self._url).write("vectors", len(ids), lines, kind, dimension)

    def write_terms(self, folder: Path, rows: int, weigh: Weigh) -> None:
        def lines(part: range) -> list[dict[str, Any]]:
            return [
                {"row": row, "weights": {_number(term): weight for term, weight in weights.items()}}
                for row, weights in zip(part, weigh(part), strict=True)
                if weights
            ]

        MilvusVersion(folder, self._url).write("terms", rows, lines, _WORDS)

    def open(self, folder: Path, ids: Sequence[str], dimension: int) -> MilvusVersion:
        with ExitStack() as failed:
            version = failed.enter_context(closing(MilvusVersion(folder, self._url, copied=True)))
            version.load("vectors")
            if version.rows != len(ids):
                raise CollectionCorrupt(f"{version.where} holds {version.rows} vectors and not {len(ids)}: index again")
            failed.pop_all()
        return version

    def delete(self, folder: Path) -> None:
        if not self._url:
            return
        with suppress(StorageError), closing(MilvusVersion(folder, self._url)) as milvus, milvus.failures.writing():
            for part in ("vectors", "terms"):
                milvus.drop(part)


class MilvusVersion:
    """The two Milvus collections of a version, and the connection to them: an `OpenVectors` that is `OpenTerms`."""

    rows = 0
    """Vectors, once they are loaded."""

    def __init__(self, folder: Path, url: str, *, copied: bool = False) -> None:
        self.where = url or str(folder / _FILES)
        self.failures = EngineFailures("Milvus", self.where, url, _raised, _answered, (OSError,))
        self._url = url
        self._folder = folder
        self._copied = copied
        self._copy = ""
        self._opened: MilvusClient | None = None

    @property
    def _client(self) -> MilvusClient:
        if self._opened is None:
            # It writes each error down with its traceback before it raises it.
            for name in ("pymilvus", "milvus_lite"):
                logging.getLogger(name).setLevel(logging.CRITICAL)
            from pymilvus import MilvusClient

            address = self._url or self._files()
            self._opened = MilvusClient(address, token=os.environ.get(TOKEN, "") if self._url else "")
        return self._opened

    def _files(self) -> str:
        files = self._folder / _FILES
        if not self._copied:
            return str(files)
        if not files.is_dir():
            raise CollectionCorrupt(f"the vectors in {files} are missing: index again")
        if not self._copy:
            self._copy = tempfile.mkdtemp(prefix="anaphora-milvus-")
            shutil.copytree(files, Path(self._copy) / _FILES)
        return str(Path(self._copy) / _FILES)

    def name(self, part: Part) -> str:
        """Versions share a server but no folder, so only the whole path tells them apart."""
        home = hashlib.sha256(str(self._folder.parent.absolute()).encode()).hexdigest()[:12]
        return re.sub(r"\W", "_", f"anaphora_{home}_{self._folder.name}_{part}")

    def write(
        self, part: Part, rows: int, lines: Callable[[range], list[dict[str, Any]]], kind: dict[str, Any], size: int = 0
    ) -> None:
        """Write the `lines` of all rows to the disk, in place of what a killed writer may have left, and close."""
        from pymilvus import DataType, MilvusClient

        schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("row", DataType.INT64, is_primary=True)
        if part == "vectors":
            schema.add_field("vector", DataType.FLOAT_VECTOR, dim=size)
        else:
            schema.add_field("weights", DataType.SPARSE_FLOAT_VECTOR)
        index = MilvusClient.prepare_index_params()
        index.add_index(_FIELDS[part], **kind)
        with closing(self), self.failures.writing():
            self.drop(part)
            name, strong = self.name(part), "Strong"
            self._client.create_collection(name, schema=schema, index_params=index, consistency_level=strong)
            for start in range(0, rows, _BATCH):
                if inserted := lines(range(start, min(start + _BATCH, rows))):
                    self._client.insert(name, inserted)
            self._client.flush(name)

    def load(self, part: Part) -> None:
        """Make ready to be searched."""
        with self.failures.reading():
            self._client.load_collection(self.name(part), timeout=_PATIENCE * 20)
            if part == "vectors":
                self.rows = int(self._client.get_collection_stats(self.name(part))["row_count"])

    def search(self, vectors: Vectors, k: int, mask: Mask | None = None) -> list[Neighbours]:
        k = min(k, self.rows if mask is None else int(mask.sum()), _MOST)
        if not len(vectors) or k < 1:
            return [Neighbours([], []) for _ in vectors]
        results = self.best("vectors", list(vectors), k, mask, {"ef": max(k, EF_SEARCH)})
        return [Neighbours([row for _, row in line], [-less for less, _ in line]) for line in results]

    def best(
        self, part: Part, data: list[Any], k: int, mask: Mask | None, params: dict[str, Any]
    ) -> list[list[tuple[float, int]]]:
        """For each of `data` its best rows as `(negative score, row)`, best first, ties by row."""
        with self.failures.reading():
            reply = self._client.search(
                self.name(part),
                data,
                filter="" if mask is None else _filter(mask),
                limit=k,
                output_fields=["row"],
                search_params={"metric_type": "IP", "params": params},
                anns_field=_FIELDS[part],
                timeout=_PATIENCE,
            )
        return [sorted((-float(hit["distance"]), int(hit["row"])) for hit in line) for line in reply]

    def take(self, rows: Sequence[int]) -> Vectors:
        vectors, wanted = dict[int, Any](), sorted(set(map(int, rows)))
        with self.failures.reading():
            for start in range(0, len(wanted), _BATCH):
                ids = wanted[start : start + _BATCH]
                stored = self._client.get(self.name("vectors"), ids=ids, output_fields=["vector"], timeout=_PATIENCE)
                vectors |= {line["row"]: line["vector"] for line in stored}
        try:
            return np.asarray([vectors[row] for row in rows], dtype=np.float32)
        except KeyError as error:
            raise CollectionCorrupt(f"{self.where} has lost passage {error}: index again") from error

    def terms(self, languages: Sequence[str]) -> MilvusTerms:
        self.load("terms")
        return MilvusTerms(self, languages)

    def drop(self, part: Part) -> None:
        if self._client.has_collection(self.name(part)):
            self._client.drop_collection(self.name(part))

    def close(self) -> None:
        client, self._opened = self._opened, None
        if client is not None:
            client.close()
        if not self._url:
            with suppress(ImportError):
                from milvus_lite import server_manager_instance

                server_manager_instance.release_server(
                    str(Path(self._copy) / _FILES if self._copied else self._folder / _FILES)
                )
        if self._copy:
            shutil.rmtree(self._copy, ignore_errors=True)


class MilvusTerms:
    """A `LexicalIndex` over the words of an open version."""

    def __init__(self, version: MilvusVersion, languages: Sequence[str]) -> None:
        self._version = version
        self._languages = languages

    def search(self, text: str, k: int, mask: Mask | None = None) -> list[int]:
        terms: dict[int, float] = {}
        for term in tokenize(text, self._languages):
            terms[_number(term)] = terms.get(_number(term), 0.0) + 1.0
        k = min(k, _MOST) if mask is None else min(k, int(mask.sum()), _MOST)
        if not terms or k < 1:
            return []
        (results,) = self._version.best("terms", [terms], k, mask, {})
        return [row for less, row in results if less < 0]


def _number(term: str) -> int:
    """A term's dimension: of 4 billion, so that two of a collection's terms hardly ever share one."""
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=4).digest()) % (2**32 - 2)


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
