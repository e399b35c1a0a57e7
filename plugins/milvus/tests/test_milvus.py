"""Milvus: in the version's folder by Milvus Lite, and on a server, which is Milvus Lite in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from index.errors import StorageError
from index.ranking import Bm25s
from index.stores import StoreSpec, VectorStore, load_store
from plugins.milvus import milvus_store as milvus
from plugins.milvus.milvus_store import MilvusStore, _filter
from testing.plugin import PluginContract
from testing.vector_store import DIMENSION, VectorStoreContract, nearest, passages
from tests.index.conftest import closed, documents
from tests.index.stored_collection import StoredCollectionContract, free_port, served
from text.words import tokenize

__all__ = ["closed", "documents"]

LITE = StoreSpec("milvus")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Milvus server."""
    folder = str(tmp_path_factory.mktemp("milvus") / "data")
    command = [sys.executable, "-m", "milvus_lite", "server", "--host", "127.0.0.1", "--data-dir", folder, "--port"]
    with served(lambda port: [*command, str(port)]) as address:
        yield address


@pytest.mark.extended
class TestLite(VectorStoreContract):
    @pytest.fixture
    def store(self) -> VectorStore:
        return load_store(LITE)


@pytest.mark.extended
class TestServer(VectorStoreContract):
    @pytest.fixture
    def store(self, server: str) -> VectorStore:
        return load_store(StoreSpec("milvus", server))


def test_words_are_ranked_as_by_the_embedded_index(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    words = [f"word{number}" for number in range(60)]
    texts = [" ".join(random.choice(words, random.integers(1, 30))) for _ in range(400)]
    texts[7] = ""
    embedded = Bm25s.build(map(tokenize, texts))
    store = MilvusStore()
    folder = tmp_path / "docs" / "versions" / "000001-0000000a"
    folder.mkdir(parents=True)
    vectors = np.eye(8, dtype=np.float32)[random.integers(0, 8, len(texts))]
    store.write_terms(folder, len(texts), embedded.weights())
    ids = [str(row) for row in range(len(texts))]
    store.write(folder, ids, 8, lambda rows: vectors[list(rows)])
    opened = store.open(folder, ids, 8)
    terms = opened.terms(("en",))
    mask = np.zeros(len(texts), dtype=np.bool_)
    mask[50:300] = random.random(250) < 0.7
    for question in ("word1", "word3 word9 word9", "word5 unheard", *texts[:5]):
        scores = embedded.scores(question)
        for allowed in (None, mask):
            ranked = terms.search(question, 25, allowed)
            expected = embedded.search(question, 25, allowed)
            assert scores[ranked] == pytest.approx(scores[expected], abs=1e-4)
            assert allowed is None or mask[ranked].all()
    assert terms.search("unheard of", 5) == terms.search("", 5) == terms.search("word1", 0) == []
    opened.close()


def test_a_mask_becomes_ranges() -> None:
    assert _filter(np.array([1, 1, 0, 1, 0, 0, 1], dtype=np.bool_)) == (
        "(row >= 0 and row < 2) or (row >= 3 and row < 4) or (row >= 6 and row < 7)"
    )


@pytest.mark.extended
def test_beyond_what_is_compared_whole_a_graph_finds_nearly_all(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(milvus, "EXACT_ROWS", 0)
    ids, vectors = passages(2000)
    folder = tmp_path / "docs" / "versions" / "000001-0000000a"
    store = MilvusStore(server)
    store.write(folder, ids, DIMENSION, lambda rows: vectors[list(rows)])
    opened = store.open(folder, ids, DIMENSION)
    mask = np.random.default_rng(4).random(len(ids)) < 0.3
    for allowed, rows in ((None, None), (mask, np.flatnonzero(mask).tolist())):
        results = opened.search(vectors[:20], 20, allowed)
        right = [len({*result.rows} & {*nearest(vectors, vectors[n], 20, rows)}) for n, result in enumerate(results)]
        assert sum(right) >= 0.98 * 20 * 20
    opened.close()
    store.delete(folder)


class TestCollection(StoredCollectionContract):
    engine = "milvus"
    keeps_words = True


@pytest.mark.extended
class TestServedCollection(TestCollection):
    per_version = 2

    @pytest.fixture
    def spec(self, server: str) -> StoreSpec:
        return StoreSpec("milvus", server)

    def keeps(self, spec: StoreSpec) -> list[str]:
        from pymilvus import MilvusClient

        client = MilvusClient(spec.url)
        try:
            return list(client.list_collections())
        finally:
            client.close()


def test_a_version_on_a_server_that_is_away_cannot_be_opened(tmp_path: Path) -> None:
    nowhere = load_store(StoreSpec("milvus", f"http://127.0.0.1:{free_port()}"))
    with pytest.raises(StorageError, match="does not answer"):
        nowhere.open(tmp_path / "docs" / "versions" / "000001-0000000a", ["a"], 8)


class TestPlugin(PluginContract):
    name = "milvus"
