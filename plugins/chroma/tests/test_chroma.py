"""Vectors on a Chroma server: a real one, in a process of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from index.collection import Collection, delete_collection
from index.documents import Document
from index.errors import CollectionMismatch, StorageError, StoreUnavailable
from index.indexer import delete_documents, index_documents
from index.query import Query
from index.stores import StoreSpec, VectorStore, load_store
from plugins.chroma.local_server import local_server, stop_servers
from testing.encoder import WordEncoder
from testing.plugin import PluginContract
from testing.vector_store import VectorStoreContract
from tests.eventually import eventually
from tests.index.conftest import closed, document, documents

__all__ = ["closed", "documents"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Chroma server."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(Path(sys.executable).with_name("chroma")), "run", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--path", str(tmp_path_factory.mktemp("chroma"))]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        url = f"http://127.0.0.1:{port}"
        for _ in range(900):
            try:
                httpx.get(f"{url}/api/v2/heartbeat").raise_for_status()
                break
            except httpx.HTTPError:
                time.sleep(0.1)
        else:
            pytest.fail("the Chroma server did not start")
        yield url
        process.terminate()


@pytest.mark.extended
class TestServer(VectorStoreContract):
    @pytest.fixture
    def store(self, server: str) -> VectorStore:
        return load_store(StoreSpec("chroma", server))


def stored(url: str) -> list[str]:
    """Names of the collections on the server."""
    response = httpx.get(f"{url}/api/v2/tenants/default_tenant/databases/default_database/collections")
    return sorted(collection["name"] for collection in response.raise_for_status().json())


def test_a_collection_lives_on_a_server(
    server: str, tmp_path: Path, documents: list[Document], words: WordEncoder
) -> None:
    index_documents(tmp_path, "docs", documents, words, store=StoreSpec("chroma", server))
    collection = Collection.open(tmp_path, "docs", words, store=StoreSpec("chroma", server))
    hit = collection.search([Query("Which fax number has the claims office?", "typed")])[0]
    assert hit.passage.document_id == "fax"
    assert hit.ranks == {"typed/bm25": 1, "typed/dense": 1}
    money = collection.search([Query("fee", lexical=0.0)], where={"domain": "money"})
    assert {hit.passage.document_id for hit in money} == {"refund", "loan"}

    index_documents(tmp_path, "docs", [document("zebra", "zebra stripes")], words, store=StoreSpec("chroma", server))
    delete_documents(tmp_path, "docs", ["fax"], words, store=StoreSpec("chroma", server))
    assert collection.refresh()
    ids = [hit.passage.document_id for hit in collection.search([Query("zebra stripes", lexical=0.0)], k=100)]
    assert ids[0] == "zebra"
    assert "fax" not in ids
    assert len(stored(server)) == 2, "the version that serves and the one before it"
    with pytest.raises(CollectionMismatch, match="store_url"):
        Collection.open(tmp_path, "docs", words)

    index_documents(tmp_path, "docs", documents, words)
    assert Collection.open(tmp_path, "docs", words).search([Query("fax")])[0].passage.document_id == "fax"
    collection.close()
    delete_collection(tmp_path, "docs")
    assert stored(server) == []


def test_a_server_that_is_away_is_named(tmp_path: Path, documents: list[Document], words: WordEncoder) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{probe.getsockname()[1]}"
    index_documents(tmp_path, "docs", documents, words)
    with pytest.raises(StorageError, match="see that the Chroma server runs"):
        index_documents(tmp_path, "docs", documents, words, store=StoreSpec("chroma", nowhere))
    assert Collection.open(tmp_path, "docs", words).search([Query("fax")])[0].passage.document_id == "fax"


@pytest.fixture
def stopped() -> Iterator[None]:
    """End the servers that a test started."""
    yield
    stop_servers()


@pytest.mark.extended
def test_without_an_address_a_server_is_started_found_by_others_and_started_anew(
    tmp_path: Path, documents: list[Document], words: WordEncoder, stopped: None
) -> None:
    index_documents(tmp_path, "docs", documents, words, store=StoreSpec("chroma"))
    url = local_server(tmp_path / "docs")
    assert url.startswith("http://127.0.0.1:")
    assert local_server(tmp_path / "docs") == url, "one server a collection"
    collection = Collection.open(tmp_path, "docs", words, store=StoreSpec("chroma"))
    assert collection.search([Query("fax", lexical=0.0)])
    stop_servers()
    assert collection.search([Query("fax", lexical=0.0)]), "a search starts the server that is gone"
    assert local_server(tmp_path / "docs") != url


@pytest.mark.extended
def test_the_server_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    script = (
        "import sys, json; from pathlib import Path; from plugins.chroma.local_server import local_server; "
        "folder = Path(sys.argv[1]); local_server(folder); "
        "print(json.loads((folder / 'chroma' / 'server.json').read_text())['pid'], flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert psutil.pid_exists(child)
        parent.kill()
    eventually(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)


def test_chroma_without_chromadb_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chromadb", None)
    with pytest.raises(StoreUnavailable, match=r"needs chromadb, .*EXTRAS=chroma"):
        load_store(StoreSpec("chroma", "http://localhost:8000"))


class TestPlugin(PluginContract):
    """The contract of every plugin."""

    name = "chroma"
