"""A vector store and a loader of another distribution, declared by its entry points."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from conftest import Declare
from index.collection import Collection
from index.documents import Query
from index.errors import LoadError
from index.indexer import index_paths
from index.loaders import load, suffixes, walk
from index.stores import StoreSpec
from tests.encoder import WordEncoder

STORE = '''
import numpy as np
from index.errors import CollectionCorrupt
from index.stores import Neighbours


class Shelf:
    """Vectors in one .npz file, searched by sorting."""

    def __init__(self, url):
        self.url = url

    def write(self, folder, ids, dimension, take):
        np.savez(folder / "vectors.npz", matrix=take(range(len(ids))))

    def open(self, folder, ids, dimension):
        try:
            return Reader(np.load(folder / "vectors.npz")["matrix"])
        except OSError as error:
            raise CollectionCorrupt(f"{folder} holds no vectors ({error}): index again") from error

    def delete(self, folder):
        pass


class Reader:
    def __init__(self, matrix):
        self.matrix = matrix

    def search(self, vectors, k, mask=None):
        found = []
        for scores in vectors @ self.matrix.T:
            rows = [row for row in np.argsort(-scores, kind="stable").tolist() if mask is None or mask[row]][:k]
            found.append(Neighbours(rows, [float(scores[row]) for row in rows]))
        return found

    def take(self, rows):
        return self.matrix[list(rows)]

    def close(self):
        pass
'''
LOADER = """
from index import Document, Section


def load(path, document_id, max_bytes):
    text = path.read_bytes()[:max_bytes].decode("utf-8").removeprefix("%wiki\\n")
    return [Document(document_id, path.stem, text, (Section((), 0, len(text)),), {"format": "wiki"})]
"""


@pytest.fixture
def shelf(declare: Declare, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed distribution with a store."""
    (declare("anaphora.vector_stores", shelf="shelf_store:Shelf") / "shelf_store.py").write_text(STORE, "utf-8")
    monkeypatch.delitem(sys.modules, "shelf_store", raising=False)


@pytest.fixture
def wiki(declare: Declare, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed distribution with a loader."""
    root = declare("anaphora.loaders", "pages", wiki="wiki_pages:load", broken="wiki_pages:nothing")
    (root / "wiki_pages.py").write_text(LOADER, "utf-8")
    monkeypatch.delitem(sys.modules, "wiki_pages", raising=False)


@pytest.mark.usefixtures("shelf", "wiki")
def test_a_store_and_a_loader_of_others_index_and_search(tmp_path: Path, folder: Path, words: WordEncoder) -> None:
    (folder / "Zebra.WIKI").write_text("%wiki\nThe zebra has stripes.", "utf-8")
    store = StoreSpec("shelf")
    report = index_paths(tmp_path, "docs", [folder], words, store=store)
    assert {file.status for file in report.files} == {"indexed"}
    collection = Collection.open(tmp_path, "docs", words, store=store)
    hit = collection.search([Query("zebra stripes", lexical=0.0)])[0]
    assert (hit.passage.document_id, hit.passage.text) == ("Zebra.WIKI", "The zebra has stripes.")
    assert list((tmp_path / "docs").rglob("vectors.npz"))
    (folder / "Zebra.WIKI").unlink()
    assert index_paths(tmp_path, "docs", [folder], words, store=store).embedded == 0
    collection.refresh()
    assert len(collection.search([Query("zebra stripes", lexical=0.0)], k=9)) == 5


@pytest.mark.usefixtures("wiki")
def test_endings_of_others_are_walked_and_their_failures_are_told(tmp_path: Path) -> None:
    assert {".wiki", ".broken", ".md"} <= suffixes()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.broken").write_text("x", "utf-8")
    (tmp_path / "docs" / "b.wiki").touch()
    assert [source.document_id for source in walk([tmp_path / "docs"])] == ["a.broken", "b.wiki"]
    with pytest.raises(LoadError, match=r"a\.broken cannot be read: The loader 'broken' that pages declares"):
        load(tmp_path / "docs" / "a.broken", "a.broken")
    with pytest.raises(LoadError, match="is empty"):
        load(tmp_path / "docs" / "b.wiki", "b.wiki")
    with pytest.raises(LoadError, match=r"no loader for \.odd; convert it to one of .*\.wiki"):
        load(tmp_path / "docs" / "c.odd", "c.odd")
