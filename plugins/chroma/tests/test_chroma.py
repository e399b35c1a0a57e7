"""Vectors on a Chroma server: a real one, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from index.collection import Collection
from index.documents import Document, Query
from index.indexer import index_documents
from index.stores import StoreSpec, VectorStore, load_store
from plugins.chroma.local_server import local_server, stop_servers
from testing.plugin import PluginContract
from testing.vector_store import VectorStoreContract
from tests.encoder import WordEncoder
from tests.eventually import eventually
from tests.index.conftest import closed, documents
from tests.index.stored_collection import StoredCollectionContract, served

__all__ = ["closed", "documents"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Chroma server."""
    command = [str(Path(sys.executable).with_name("chroma")), "run", "--path", str(tmp_path_factory.mktemp("chroma"))]
    with served(lambda port: [*command, "--host", "127.0.0.1", "--port", str(port)]) as address:
        yield address


@pytest.mark.extended
class TestServer(VectorStoreContract):
    @pytest.fixture
    def store(self, server: str) -> VectorStore:
        return load_store(StoreSpec("chroma", server))


class TestCollection(StoredCollectionContract):
    engine = "chroma"
    per_version = 1

    @pytest.fixture
    def spec(self, server: str) -> StoreSpec:
        return StoreSpec("chroma", server)

    def keeps(self, spec: StoreSpec) -> list[str]:
        place = "/api/v2/tenants/default_tenant/databases/default_database/collections"
        return [row["name"] for row in httpx.get(f"{spec.url}{place}").raise_for_status().json()]


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


class TestPlugin(PluginContract):
    name = "chroma"
