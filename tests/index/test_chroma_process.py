"""Chroma runs beside us: whatever ends its process ends no other, and it ends with ours."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection
from index.documents import Document
from index.errors import CollectionCorrupt, StorageError
from index.indexer import index_documents
from index.query import Query
from index.stores import StoreSpec, chroma_process, load_store
from index.versions import CollectionFolder
from testing.encoder import WordEncoder
from testing.vector_store import DIMENSION, passages

CHROMA = StoreSpec("chroma")


@pytest.fixture
def root(tmp_path: Path, documents: list[Document], words: WordEncoder) -> Path:
    index_documents(tmp_path, "docs", documents, words, store=CHROMA)
    return tmp_path


@pytest.fixture
def collection(root: Path, words: WordEncoder) -> Iterator[Collection]:
    opened = Collection.open(root, "docs", words, store=CHROMA)
    yield opened
    opened.close()


def served(root: Path) -> Path:
    folder = CollectionFolder(root, "docs")
    return folder.versions / folder.named()


def nearest(collection: Collection) -> str:
    return collection.search([Query("fax number", lexical=0.0)], k=1)[0].passage.document_id


def children() -> set[int]:
    """Process ids of Chroma's processes that this one started."""
    tasks = Path("/proc/self/task")
    found = {int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()}
    return {pid for pid in found if b"index.stores.chroma_process" in Path(f"/proc/{pid}/cmdline").read_bytes()}


def within(seconds: float, met: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not met():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def without_checksums(version: Path) -> None:
    """As an earlier program wrote it: damage is then met by Chroma alone."""
    manifest = version / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text("utf-8")), "files": {}}), "utf-8")


def test_a_killed_process_is_started_again_by_the_next_search(collection: Collection) -> None:
    before = children()
    assert nearest(collection) == "fax"
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    assert nearest(collection) == "fax"
    assert children() - before
    assert collection.problem == ""


def test_damage_that_ends_chroma_is_an_error_here(tmp_path: Path) -> None:
    store, version = load_store(CHROMA), tmp_path / "docs" / "versions" / "000001-00000000"
    version.mkdir(parents=True)
    # From a thousand on, Chroma keeps a graph in files, and trusts them.
    ids, vectors = passages(1200)
    store.write(version, ids, DIMENSION, lambda rows: vectors[list(rows)], None)
    (graph,) = version.glob("vectors/*/data_level0.bin")
    data = bytearray(graph.read_bytes())
    data[:2000] = bytes(byte ^ 0x40 for byte in data[:2000])
    graph.write_bytes(data)
    with pytest.raises(CollectionCorrupt, match=r"Chroma's process ended by signal \d+.*index again"):
        store.open(version, ids, DIMENSION)


def test_reading_leaves_a_version_as_it_was_written(root: Path, words: WordEncoder) -> None:
    folder = CollectionFolder(root, "docs")
    for _ in range(2):
        opened = Collection.open(root, "docs", words, store=CHROMA)
        other = Collection.open(root, "docs", words, store=CHROMA)
        assert nearest(opened) == nearest(other) == "fax"
        folder.version(folder.named()).check()
        opened.close()
        other.close()
    folder.version(folder.named()).check()
    assert not list(served(root).glob(f"{chroma_process.COPY}*"))


def test_what_a_killed_process_left_is_removed(root: Path, words: WordEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    left = served(root) / f"{chroma_process.COPY}left"
    left.mkdir()
    (left / "chroma.sqlite3").write_bytes(b"x")
    os.utime(left, (0, 0))
    opened = Collection.open(root, "docs", words, store=CHROMA)
    assert len(list(served(root).glob(f"{chroma_process.COPY}*"))) == 1, "what is in use stays"
    assert not left.exists()
    opened.close()


PARENT = """
import sys, time
from pathlib import Path
from index.collection import Collection
from index.stores import StoreSpec
from testing.encoder import WordEncoder
from testing.vector_store import DIMENSION, passages
collection = Collection.open(Path(sys.argv[1]), "docs", WordEncoder(), store=StoreSpec("chroma"))
print(collection._generation._vectors._connection.collection._process.pid, flush=True)
time.sleep(60)
"""


def test_it_ends_with_a_parent_that_is_killed_and_inherits_no_secret(root: Path) -> None:
    environment = {**os.environ, "ANAPHORA_LLM__API_KEY": "sk-secret", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PARENT, str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert b"sk-secret" not in Path(f"/proc/{pid}/environ").read_bytes()
        parent.kill()
    assert within(10, lambda: not Path(f"/proc/{pid}").exists())
    assert within(5, lambda: not list(served(root).glob(f"{chroma_process.COPY}*")))


def test_an_answer_that_does_not_come_is_given_up(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = children()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(chroma_process, "SECONDS", 0.2)
    vectors = collection._generation._vectors
    assert vectors is not None
    with pytest.raises(CollectionCorrupt, match="did not answer within"):
        vectors.search(np.ones((1, collection._encoder.dimension), dtype=np.float32), 1)
    assert within(5, lambda: not pids & children())


def test_no_room_for_the_copy_is_said_as_it_is(root: Path, words: WordEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    database = served(root) / "vectors" / "chroma.sqlite3"
    without_checksums(served(root))
    database.unlink()
    database.symlink_to(root / "nowhere")
    with pytest.raises(StorageError, match="look for room on the disk"):
        Collection.open(root, "docs", words, store=CHROMA)
