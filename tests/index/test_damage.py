"""Broken disks: whatever happens to a file of a version, nothing wrong is served, and indexing again mends it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection, delete_collection, list_collections
from index.documents import Document, Query
from index.errors import CollectionCorrupt, CollectionNotFound, IndexingCancelled
from index.indexer import IndexProgress, index_documents, index_paths
from index.version import PIECE, CollectionFolder, Pace
from index.writer import VectorJournal
from tests.damages import DAMAGES, Damage, damage_file, empty, flip, remove, truncate
from tests.encoder import WordEncoder
from tests.index.conftest import document

FILES = (
    "records.sqlite", "vectors.npy", "manifest.json", "current", "lexical/data.csc.index.npy",
    "lexical/indices.csc.index.npy", "lexical/indptr.csc.index.npy", "lexical/params.index.json",
)  # fmt: skip


@pytest.fixture
def root(tmp_path: Path, documents: list[Document], words: WordEncoder) -> Path:
    """A collection of two versions; the newer one has a document more."""
    index_documents(tmp_path, "docs", documents, words)
    index_documents(tmp_path, "docs", [document("visa", "A visa is issued by the consulate.")], words)
    return tmp_path


def damaged(root: Path, file: str, damage: Damage) -> None:
    damage_file(CollectionFolder(root, "docs"), file, damage)


def found(collection: Collection, text: str) -> list[str]:
    return [hit.passage.document_id for hit in collection.search([Query(text)], k=1)]


def test_the_files_tried_here_are_those_of_a_version(root: Path) -> None:
    folder = next(CollectionFolder(root, "docs").sound()).folder
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert set(FILES) - {"current"} <= there
    assert {name.partition("/")[0] for name in there} == {name.partition("/")[0] for name in FILES} - {"current"}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", [*FILES[:4], *(pytest.param(file, marks=pytest.mark.extended) for file in FILES[4:])])
def test_the_version_before_serves_and_indexing_again_mends_it(
    root: Path, file: str, damage: Damage, words: WordEncoder
) -> None:
    damaged(root, file, damage)
    collection = Collection.open(root, "docs", words)
    assert found(collection, "claims office fax number") == ["fax"]
    # A damaged pointer costs nothing: the newest complete version is the one it named.
    assert (found(collection, "visa consulate") == ["visa"]) == (file == "current")
    assert "indexed again" in collection.problem
    assert [info.name for info in list_collections(root)] == ["docs"]
    collection.refresh()
    assert "indexed again" in collection.problem
    again = index_documents(root, "docs", [document("visa", "A visa is issued by the consulate.")], words)
    assert collection.refresh()
    assert collection.version == again.version
    assert collection.problem == ""
    assert found(collection, "visa consulate") == ["visa"]
    delete_collection(root, "docs")
    assert list_collections(root) == []


@pytest.mark.extended
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", FILES)
def test_damage_to_the_only_version_is_one_clear_error(
    tmp_path: Path, file: str, damage: Damage, documents: list[Document], words: WordEncoder
) -> None:
    index_documents(tmp_path, "docs", documents, words)
    damaged(tmp_path, file, damage)
    if file == "current":
        assert found(Collection.open(tmp_path, "docs", words), "claims office fax number") == ["fax"]
    else:
        with pytest.raises((CollectionCorrupt, CollectionNotFound), match=r"index again|there is no collection"):
            Collection.open(tmp_path, "docs", words)
    index_documents(tmp_path, "docs", documents, words)
    assert found(Collection.open(tmp_path, "docs", words), "claims office fax number") == ["fax"]


def test_damage_while_it_is_open_is_seen_by_a_check(root: Path, words: WordEncoder) -> None:
    collection = Collection.open(root, "docs", words)
    before = collection.version
    assert collection.check()
    damaged(root, "vectors.npy", flip)
    assert not collection.check()
    assert collection.version != before
    assert found(collection, "claims office fax number") == ["fax"]
    assert "vectors.npy" in collection.problem


def test_a_file_that_changes_while_it_is_open_is_noticed_by_the_next_search(root: Path, words: WordEncoder) -> None:
    collection = Collection.open(root, "docs", words)
    before = collection.version
    # A mapped file cut short ends the process that reads on.
    damaged(root, "vectors.npy", empty)
    assert found(collection, "claims office fax number") == ["fax"]
    assert collection.version != before
    assert "vectors.npy" in collection.problem


def test_a_file_that_is_only_touched_stays_in_use(root: Path, words: WordEncoder) -> None:
    collection = Collection.open(root, "docs", words)
    damaged(root, "vectors.npy", lambda path: os.utime(path, (1, 1)))
    assert found(collection, "visa consulate") == ["visa"]
    assert collection.problem == ""


def test_where_no_version_is_sound_any_more_nothing_is_found_until_it_is_indexed_again(
    tmp_path: Path, documents: list[Document], words: WordEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_documents(tmp_path, "docs", documents, words)
    collection = Collection.open(tmp_path, "docs", words)
    damaged(tmp_path, "vectors.npy", flip)
    opened = list[str]()
    real = Collection._open_best
    monkeypatch.setattr(Collection, "_open_best", lambda self: opened.append(self.name) or real(self))
    for _ in range(3):
        with pytest.raises(CollectionCorrupt, match="index again"):
            found(collection, "fax")
    assert opened == ["docs"], "files are not read again for every question"
    assert "index again" in collection.problem
    index_documents(tmp_path, "docs", [document("visa", "A visa is issued by the consulate.")], words)
    assert collection.refresh()
    assert collection.problem == ""
    assert found(collection, "visa consulate") == ["visa"]


def test_checking_is_held_down_to_a_rate() -> None:
    now, slept = 0.0, list[float]()

    def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds

    pace = Pace(10 * PIECE, clock=lambda: now, sleep=sleep)
    with tempfile.TemporaryFile() as file:
        for _ in range(30):
            now += 0.02  # reading a piece
            pace.read(file.fileno(), 0, PIECE)
        assert now == pytest.approx(3.0, abs=0.1)
        # A pause of its own is not made up for.
        now += 100.0
        pace.read(file.fileno(), 0, PIECE)
    assert slept[-1] <= 0.1
    assert now < 103.3


def test_sound_vectors_of_a_damaged_version_are_not_computed_again(folder: Path, tmp_path: Path) -> None:
    root, words = tmp_path / "collections", WordEncoder()
    index_paths(root, "docs", [folder], words)
    damaged(root, "lexical/data.csc.index.npy", flip)
    report = index_paths(root, "docs", [folder], words)
    assert report.embedded == 0
    assert {file.status for file in report.files} == {"unchanged"}
    assert found(Collection.open(root, "docs", words), "claims office fax number") == ["fax.md"]


def test_a_version_whose_texts_are_lost_is_made_again_from_the_one_before(folder: Path, tmp_path: Path) -> None:
    root, words = tmp_path / "collections", WordEncoder()
    index_paths(root, "docs", [folder], words)
    (folder / "visa.md").write_text("# Visa\n\nA visa is issued by the consulate.\n", "utf-8")
    index_paths(root, "docs", [folder], words)
    damaged(root, "records.sqlite", truncate)
    report = index_paths(root, "docs", [folder], words)
    changed = {file.document_id: file.status for file in report.files if file.status != "unchanged"}
    assert changed == {"visa.md": "indexed"}
    assert found(Collection.open(root, "docs", words), "visa consulate") == ["visa.md"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_journal_costs_the_vectors_in_it_and_nothing_else(
    folder: Path, tmp_path: Path, damage: Damage
) -> None:
    root, words = tmp_path / "collections", WordEncoder()
    stopped = False

    def stop(progress: IndexProgress) -> None:
        nonlocal stopped
        stopped = progress.stage == "saving"

    with pytest.raises(IndexingCancelled):
        index_paths(root, "docs", [folder], words, progress=stop, cancelled=lambda: stopped)
    damage(root / "docs" / "vectors.sqlite")
    index_paths(root, "docs", [folder], words)
    collection = Collection.open(root, "docs", words)
    texts = [hit.passage for hit in collection.search([Query("fax number fee visa")], k=100)]
    kept = collection.passage_vectors([passage.id for passage in texts])
    assert np.allclose(kept, words.encode([passage.indexed_text for passage in texts]), atol=1e-6)


def test_a_flipped_vector_in_the_journal_is_computed_again(tmp_path: Path) -> None:
    journal = VectorJournal(tmp_path / "vectors.sqlite", "words", 4)
    journal.add([b"one", b"two"], np.eye(2, 4, dtype=np.float32))
    journal.close()
    path = tmp_path / "vectors.sqlite"
    path.write_bytes(path.read_bytes().replace(np.eye(2, 4, dtype=np.float32)[1].tobytes(), b"\x01" * 16))
    journal = VectorJournal(path, "words", 4)
    assert journal.keys() == {b"one"}
    with pytest.raises(KeyError):
        journal.get(b"two")
    journal.close()


def test_a_file_that_vanishes_while_it_is_open_is_noticed_by_a_refresh(root: Path, words: WordEncoder) -> None:
    collection = Collection.open(root, "docs", words)
    damaged(root, "lexical/data.csc.index.npy", remove)
    assert found(collection, "visa consulate") == ["visa"], "what is mapped is still whole"
    assert collection.refresh()
    assert "data.csc.index.npy" in collection.problem
    assert found(collection, "claims office fax number") == ["fax"]
