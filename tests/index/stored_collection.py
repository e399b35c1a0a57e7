"""The tests of a collection whose vectors another engine keeps, for the plugins that bring one; and their servers."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar

import pytest

from index.collection import Collection, delete_collection
from index.documents import Document, Query
from index.errors import CollectionMismatch, StorageError
from index.indexer import delete_documents, index_documents
from index.stores import StoreSpec
from tests.encoder import WordEncoder
from tests.eventually import eventually
from tests.index.conftest import document


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    return False


@contextmanager
def served(command: Callable[[int], list[str]]) -> Iterator[str]:
    """Run the server that `command` starts on a port, and give its address."""
    port = free_port()
    with subprocess.Popen(command(port), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            eventually(lambda: listens(port), seconds=90)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


class StoredCollectionContract:
    """Inherit it and give the engine's name, `spec`, and where there is a server what it `keeps`."""

    engine: ClassVar[str]
    keeps_words: ClassVar = False
    per_version: ClassVar = 0
    """Names on the server for each of the two versions that are there."""

    @pytest.fixture
    def spec(self) -> StoreSpec:
        return StoreSpec(self.engine)

    def keeps(self, spec: StoreSpec) -> list[str]:
        return []

    def test_a_collection_lives_in_the_store(
        self, spec: StoreSpec, tmp_path: Path, documents: list[Document], words: WordEncoder
    ) -> None:
        index_documents(tmp_path, "docs", documents, words, store=spec)
        collection = Collection.open(tmp_path, "docs", words, store=spec)
        hit = collection.search([Query("Which fax number has the claims office?", "typed")])[0]
        assert hit.passage.document_id == "fax"
        assert hit.ranks == {"typed/bm25": 1, "typed/dense": 1}
        for lexical in (0.0, 1.0):
            money = collection.search([Query("fee", lexical=lexical)], where={"domain": "money"})
            assert {hit.passage.document_id for hit in money} == {"refund", "loan"}

        index_documents(tmp_path, "docs", [document("zebra", "zebra stripes")], words, store=spec)
        delete_documents(tmp_path, "docs", ["fax"], words, store=spec)
        assert collection.refresh()
        for lexical in (0.0, 1.0):
            hits = collection.search([Query("zebra stripes", lexical=lexical)], k=100)
            ids = [hit.passage.document_id for hit in hits]
            assert ids[0] == "zebra"
            assert "fax" not in ids
        assert len(self.keeps(spec)) == 2 * self.per_version, "the version that serves and the one before it"
        assert bool([*tmp_path.rglob("lexical")]) is not self.keeps_words
        with pytest.raises(CollectionMismatch, match="store_url"):
            Collection.open(tmp_path, "docs", words)

        index_documents(tmp_path, "docs", documents, words)
        assert Collection.open(tmp_path, "docs", words).search([Query("fax")])[0].passage.document_id == "fax"
        collection.close()
        delete_collection(tmp_path, "docs")
        assert self.keeps(spec) == []

    def test_a_server_that_is_away_is_named(
        self, tmp_path: Path, documents: list[Document], words: WordEncoder
    ) -> None:
        nowhere = StoreSpec(self.engine, f"http://127.0.0.1:{free_port()}")
        index_documents(tmp_path, "docs", documents, words)
        with pytest.raises(StorageError, match=f"see that the {self.engine.title()} server runs"):
            index_documents(tmp_path, "docs", documents, words, store=nowhere)
        assert Collection.open(tmp_path, "docs", words).search([Query("fax")])[0].passage.document_id == "fax"
