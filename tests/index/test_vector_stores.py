"""The stores that come with Anaphora keep the contract, lie once on disk, and are chosen by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection, list_collections
from index.documents import Document, Query
from index.errors import CollectionCorrupt, CollectionMismatch, StoreUnavailable
from index.indexer import index_documents, index_paths
from index.stores import EXACT, StoreSpec, VectorStore, load_store
from index.version import CollectionFolder
from testing.vector_store import VectorStoreContract
from tests.encoder import WordEncoder
from tests.index.conftest import document

QUANTISED = StoreSpec("quantised")


class TestExact(VectorStoreContract):
    @pytest.fixture
    def store(self) -> VectorStore:
        return load_store(EXACT)


class TestQuantised(VectorStoreContract):
    @pytest.fixture
    def store(self) -> VectorStore:
        return load_store(QUANTISED)


def test_signs_find_nearly_all_that_comparing_every_vector_finds(tmp_path: Path) -> None:
    random = np.random.default_rng(11)
    centres = random.standard_normal((40, 200))
    vectors = (centres[random.integers(0, 40, 6000)] + random.standard_normal((6000, 200))).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    ids = [f"{row}" for row in range(len(vectors))]
    found: dict[StoreSpec, list[set[int]]] = {}
    for spec in (EXACT, QUANTISED):
        folder = tmp_path / spec.name
        folder.mkdir()
        load_store(spec).write(folder, ids, 200, lambda rows: vectors[list(rows)])
        opened = load_store(spec).open(folder, ids, 200)
        found[spec] = [set(near.rows) for near in opened.search(vectors[:50] + 0.02, 100)]
    common = [len(quick & exact) for quick, exact in zip(found[QUANTISED], found[EXACT], strict=True)]
    assert 99 <= np.mean(common) <= 100
    (folder / "vectors.signs.npy").unlink()
    with pytest.raises(CollectionCorrupt, match=r"vectors\.signs\.npy cannot be read"):
        load_store(QUANTISED).open(folder, ids, 200)


def kept(folder: Path) -> set[str]:
    """What holds vectors in a version's folder."""
    return {path.name for path in folder.iterdir() if path.name.startswith(("vectors", "dense"))}


@pytest.mark.parametrize(
    ("store", "files"),
    [(EXACT, {"vectors.npy"}), (QUANTISED, {"vectors.npy", "vectors.signs.npy"})],
)
def test_vectors_lie_once_on_disk_and_move_with_the_setting(
    tmp_path: Path, documents: list[Document], words: WordEncoder, store: StoreSpec, files: set[str]
) -> None:
    other = QUANTISED if store == EXACT else EXACT
    index_documents(tmp_path, "docs", documents, words, store=other)
    report = index_documents(tmp_path, "docs", [document("zebra", "zebra stripes")], words, store=store)
    assert report.embedded == 1, "the other vectors came over"
    assert kept(next(CollectionFolder(tmp_path, "docs").sound()).folder) == files
    collection = Collection.open(tmp_path, "docs", words, store=store)
    for text in ("zebra stripes", "fax"):
        hit = collection.search([Query(text, lexical=0.0)])[0]
        assert hit.passage.document_id == text.split()[0]
        vector = collection.passage_vectors([hit.passage.id])
        assert np.allclose(vector, words.encode([hit.passage.indexed_text]), atol=1e-6)
    assert collection.search([Query("fee", lexical=0.0)], where={"domain": "money"})[0].passage.document_id == "refund"
    with pytest.raises(CollectionMismatch, match=f"in the store {store.name}, and {other.name} was asked for"):
        Collection.open(tmp_path, "docs", words, store=other)


@pytest.mark.parametrize("store", [EXACT, QUANTISED])
def test_indexing_again_mends_vectors_that_are_lost(
    tmp_path: Path, folder: Path, words: WordEncoder, store: StoreSpec
) -> None:
    index_paths(tmp_path, "docs", [folder], words, store=store)
    version = next(CollectionFolder(tmp_path, "docs").sound()).folder
    for name in kept(version):
        (version / name).rename(tmp_path / name)
    with pytest.raises(CollectionCorrupt, match="index again"):
        Collection.open(tmp_path, "docs", words, store=store)
    report = index_paths(tmp_path, "docs", [folder], words, store=store)
    assert {file.status for file in report.files} == {"unchanged"}
    assert report.embedded == 5
    assert Collection.open(tmp_path, "docs", words, store=store).search([Query("fax", lexical=0.0)])


def test_a_collection_of_an_unknown_format_says_what_to_do(
    tmp_path: Path, documents: list[Document], words: WordEncoder
) -> None:
    index_documents(tmp_path, "docs", documents, words)
    manifest = next(CollectionFolder(tmp_path, "docs").sound()).folder / "manifest.json"
    manifest.write_text(manifest.read_text("utf-8").replace('"format": 3', '"format": 99'), "utf-8")
    with pytest.raises(CollectionCorrupt, match="format 99, and this program reads format 3: delete the collection"):
        Collection.open(tmp_path, "docs", words)


def test_a_store_that_is_not_there_is_named(tmp_path: Path, documents: list[Document], words: WordEncoder) -> None:
    with pytest.raises(
        StoreUnavailable, match=r"no vector store 'lance'. There are: chroma, exact, milvus.*`index.store`"
    ):
        index_documents(tmp_path, "docs", documents, words, store=StoreSpec("lance"))
    assert list_collections(tmp_path) == []
