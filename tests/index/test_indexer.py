from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection, list_collections
from index.documents import Document, Query, Section
from index.errors import CollectionNotFound, DocumentNotFound, IndexingCancelled, LoadError
from index.indexer import MAX_PASSAGES, IndexProgress, IndexReport, delete_documents, index_documents, index_paths
from index.passages import split
from index.stores import StoreSpec
from index.version import CollectionFolder
from tests.encoder import WordEncoder
from tests.index.conftest import TEXTS

Index = Callable[..., IndexReport]


@pytest.fixture
def index(tmp_path: Path, words: WordEncoder) -> Index:
    """Index paths into the collection `docs`."""

    def run(*paths: Path, **options: object) -> IndexReport:
        return index_paths(tmp_path / "collections", "docs", paths, words, **options)  # type: ignore[arg-type]

    return run


@pytest.fixture
def opened(tmp_path: Path, words: WordEncoder) -> Callable[[], Collection]:
    return lambda: Collection.open(tmp_path / "collections", "docs", words)


def statuses(report: IndexReport) -> dict[str, str]:
    return {status.document_id: status.status for status in report.files}


def best(collection: Collection, text: str) -> str:
    return collection.search([Query(text)], k=1)[0].passage.document_id


def test_a_folder_becomes_a_collection(index: Index, opened: Callable[[], Collection], folder: Path) -> None:
    report = index(folder)
    assert statuses(report) == {f"{name}.md": "indexed" for name in TEXTS}
    assert all(status.passages == 1 for status in report.files)
    collection = opened()
    assert collection.version == report.version
    hit = collection.search([Query("fax number of the claims office")])[0]
    assert hit.passage.document_id == "fax.md"
    text = collection.document("fax.md").text
    assert text[hit.passage.start : hit.passage.end] == hit.passage.text


def test_only_what_changed_is_embedded(index: Index, words: WordEncoder, folder: Path) -> None:
    first = index(folder)
    assert first.embedded == len(words.encoded) == 5
    words.encoded.clear()
    again = index(folder)
    assert set(statuses(again).values()) == {"unchanged"}
    assert (again.embedded, words.encoded, again.version) == (0, [], first.version)
    (folder / "loan.md").write_text("# About loan\n\nStudent loans are repaid at once.\n", "utf-8")
    (folder / "new.md").write_text("# New\n\nA new page.\n", "utf-8")
    third = index(folder)
    assert {name for name, status in statuses(third).items() if status == "indexed"} == {"loan.md", "new.md"}
    assert third.embedded == len(words.encoded) == 2


def test_moving_text_about_costs_no_embedding(index: Index, words: WordEncoder, folder: Path) -> None:
    index(folder)
    words.encoded.clear()
    (folder / "sub").mkdir()
    (folder / "fax.md").rename(folder / "sub" / "renamed.md")
    report = index(folder)
    assert statuses(report)["sub/renamed.md"] == "indexed"
    assert statuses(report)["fax.md"] == "deleted"
    assert words.encoded == []


def test_files_that_are_gone_are_pruned_and_others_stay(
    index: Index, opened: Callable[[], Collection], folder: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "zebra.md").write_text("# Zebra\n\nStripes.\n", "utf-8")
    index(folder)
    index(other)
    (folder / "fax.md").unlink()
    assert "fax.md" not in statuses(index(folder, prune=False))
    assert {info.id for info in opened().documents()} == {"zebra.md", *(f"{name}.md" for name in TEXTS)}
    assert statuses(index(folder))["fax.md"] == "deleted"
    assert {info.id for info in opened().documents()} == {"zebra.md", "mail.md", "refund.md", "licence.md", "loan.md"}
    assert best(opened(), "zebra stripes") == "zebra.md"


def test_files_of_the_same_name_from_two_folders_both_stay(
    index: Index, opened: Callable[[], Collection], folder: Path, tmp_path: Path
) -> None:
    second = tmp_path / "second"
    second.mkdir()
    (second / "fax.md").write_text("# Other fax\n\nA facsimile machine.\n", "utf-8")
    index(folder)
    assert statuses(index(second)) == {"second/fax.md": "indexed"}
    assert {"fax.md", "second/fax.md"} <= {info.id for info in opened().documents()}
    assert statuses(index(second)) == {"second/fax.md": "unchanged"}
    assert best(opened(), "facsimile machine") == "second/fax.md"


def test_a_moved_folder_keeps_its_ids(
    index: Index, opened: Callable[[], Collection], words: WordEncoder, folder: Path
) -> None:
    index(folder)
    words.encoded.clear()
    moved = folder.rename(folder.parent / "moved")
    index(moved)
    assert {info.id for info in opened().documents()} == {f"{name}.md" for name in TEXTS}
    assert words.encoded == []


def test_one_bad_file_stops_nothing_and_is_explained(
    index: Index, opened: Callable[[], Collection], folder: Path
) -> None:
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 and then nothing")
    (folder / "binary.md").write_bytes(bytes(range(256)) * 40)
    (folder / "empty.md").write_text("", "utf-8")
    report = index(folder, folder / "missing.md")
    assert {statuses(report)[name] for name in ("broken.pdf", "binary.md", "missing.md")} == {"failed"}
    assert statuses(report)["empty.md"] in ("failed", "skipped")
    assert all(status.message for status in report.files if status.status != "indexed")
    assert len(opened().documents()) == 5


def test_a_name_that_is_no_utf_8_is_told_and_the_rest_is_indexed(
    index: Index, opened: Callable[[], Collection], folder: Path
) -> None:
    within = os.fsencode(folder)
    odd = Path(os.fsdecode(within + b"/b\xfccher"))
    odd.mkdir()
    (odd / "one.md").write_text("# One\n\nThe library.\n", "utf-8")
    Path(os.fsdecode(within + b"/caf\xe9.md")).write_text("# Cafe\n\nThe cafe.\n", "utf-8")
    Path(os.fsdecode(within + b"/caf\xe8.md")).symlink_to(folder / "fax.md")
    report = index(folder)
    failed = {status.document_id: status.message for status in report.files if status.status == "failed"}
    assert set(failed) == {"b\\xfccher/one.md", "caf\\xe9.md"}
    assert all("is not UTF-8: rename it" in message for message in failed.values())
    assert all(status.path.encode() for status in report.files)
    assert len(opened().documents()) == len(TEXTS)
    assert index(folder).version == report.version
    # Named by itself, it fails by itself.
    assert set(statuses(index(odd, folder / "loan.md")).values()) == {"failed", "unchanged"}
    with pytest.raises(LoadError, match=r"no document in .*/b\\xfccher"):
        index(odd, include=["*.txt"])


@pytest.mark.extended
def test_a_small_file_of_many_pages_does_not_become_as_many_passages(
    index: Index, opened: Callable[[], Collection], folder: Path
) -> None:
    (folder / "feeds.txt").write_text("page\f" * 50_000, "utf-8")
    status = next(status for status in index(folder).files if status.document_id == "feeds.txt")
    assert (status.status, status.passages) == ("indexed", MAX_PASSAGES)
    assert status.message == "only its first 20,000 passages, 40 % of it, are searched: split the file"
    document = next(info for info in opened().documents() if info.id == "feeds.txt")
    assert (document.passages, document.warning) == (MAX_PASSAGES, status.message)
    # One line is no more than so many windows either: what comes after them is not even looked at.
    counted = list[int]()

    def count(text: str) -> int:
        counted.append(1)
        return len(text.split())

    line = Document("line.txt", "", "word " * 200_000, (Section((), 0, 1_000_000),))
    assert len(split(line, 20, count, 100)) == 100
    assert len(counted) < 5_000


def test_a_file_that_breaks_keeps_what_was_indexed_of_it(
    index: Index, opened: Callable[[], Collection], folder: Path
) -> None:
    index(folder)
    (folder / "fax.md").write_bytes(bytes(range(256)) * 40)
    status = next(status for status in index(folder).files if status.document_id == "fax.md")
    assert status.status == "failed"
    assert "stays" in status.message
    assert best(opened(), "fax number of the claims office") == "fax.md"


def test_an_empty_folder_is_an_error_and_changes_nothing(
    index: Index, opened: Callable[[], Collection], folder: Path, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(LoadError, match="nothing was changed"):
        index(empty)
    assert list_collections(tmp_path / "collections") == []
    index(folder)
    shutil.rmtree(folder)
    folder.mkdir()
    with pytest.raises(LoadError, match="nothing was changed"):
        index(folder)
    assert len(opened().documents()) == 5


def test_when_every_file_fails_there_is_no_collection(
    index: Index, opened: Callable[[], Collection], tmp_path: Path
) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "broken.pdf").write_bytes(b"%PDF-1.7")
    report = index(tmp_path / "bad")
    assert (statuses(report), report.version) == ({"broken.pdf": "failed"}, "")
    with pytest.raises(CollectionNotFound):
        opened()


def test_a_file_deleted_while_indexing_is_skipped_and_the_rest_indexed(
    index: Index, opened: Callable[[], Collection], folder: Path
) -> None:
    place = sorted(path.name for path in folder.iterdir()).index("licence.md")

    def remove(step: IndexProgress) -> None:
        if step.stage == "reading" and step.done == place:
            (folder / "licence.md").unlink(missing_ok=True)

    report = index(folder, progress=remove)
    assert statuses(report)["licence.md"] == "skipped"
    assert "disappeared" in next(status.message for status in report.files if status.status == "skipped")
    assert len(opened().documents()) == 4


def test_deleting_a_document_and_indexing_again_brings_it_back(
    index: Index, opened: Callable[[], Collection], folder: Path, words: WordEncoder, tmp_path: Path
) -> None:
    index(folder)
    report = delete_documents(tmp_path / "collections", "docs", ["fax.md"], words)
    assert statuses(report) == {"fax.md": "deleted"}
    assert statuses(index(folder))["fax.md"] == "indexed"
    assert len(opened().documents()) == 5
    with pytest.raises(DocumentNotFound):
        delete_documents(tmp_path / "collections", "docs", ["nothing"], words)
    with pytest.raises(CollectionNotFound):
        delete_documents(tmp_path / "collections", "nothing", ["fax.md"], words)


def test_a_stopped_run_changes_nothing_and_the_next_one_goes_on(
    index: Index, opened: Callable[[], Collection], folder: Path, words: WordEncoder
) -> None:
    index(folder)
    version = opened().version
    for number in range(100):
        (folder / f"page{number:03}.md").write_text(f"# Page {number}\n\nAbout subject {number}.\n", "utf-8")
    words.encoded.clear()
    with pytest.raises(IndexingCancelled, match="goes on"):
        index(folder, cancelled=lambda: len(words.encoded) >= 32)
    assert opened().version == version
    kept = len(words.encoded)
    assert 32 <= kept < 100
    report = index(folder)
    assert report.embedded == 100 - kept
    assert len(words.encoded) == 100
    assert len(opened().documents()) == 105


def test_the_previous_version_stays_and_older_ones_go(index: Index, folder: Path, tmp_path: Path) -> None:
    versions = []
    for number in range(4):
        (folder / "fax.md").write_text(f"# Fax\n\nEdition {number}.\n", "utf-8")
        versions.append(index(folder).version)
    kept = CollectionFolder(tmp_path / "collections", "docs").versions
    assert sorted(os.listdir(kept)) == versions[-2:]
    assert sorted(path.name for path in kept.parent.iterdir()) == ["current", "lock", "versions"]


def test_include_and_exclude_choose_files(index: Index, folder: Path) -> None:
    assert set(statuses(index(folder, include=["f*.md", "l*.md"], exclude=["loan.md"]))) == {"fax.md", "licence.md"}


@pytest.mark.timeout(90)
@pytest.mark.parametrize("given", ["folder", "file"])
def test_a_pipe_or_socket_among_the_documents_is_told_and_never_opened(
    tmp_path: Path, folder: Path, words: WordEncoder, given: str
) -> None:
    os.mkfifo(folder / "pipe.md")
    os.mkfifo(folder / "corpus.jsonl")
    (folder / "device.txt").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket.md"))
        paths = [folder] if given == "folder" else sorted(folder.iterdir())
        report = index_paths(tmp_path, "docs", paths, words)
    failed = {file.document_id: file.message for file in report.files if file.status != "indexed"}
    odd = {"pipe.md", "corpus.jsonl", "socket.md"}
    # A link that leaves the folder is not followed; named by itself it is.
    assert set(failed) == (odd if given == "folder" else odd | {"device.txt"})
    assert all("not an ordinary file" in message for message in failed.values())
    assert sum(file.status == "indexed" for file in report.files) == 5
    assert index_paths(tmp_path, "docs", paths, words).version == report.version


def many(path: Path, count: int = 600) -> None:
    """Write a file of `count` passages, each with a word of its own."""
    text = "\n\n".join(f"## Part {n}\n\nThe lamp of room{n} is colour{n}.\n" for n in range(count))
    path.write_text(f"# Lamps\n\n{text}", "utf-8")


def test_words_find_everything_before_all_of_it_is_embedded(
    index: Index, opened: Callable[[], Collection], tmp_path: Path, words: WordEncoder
) -> None:
    folder = tmp_path / "large"
    folder.mkdir()
    many(folder / "lamps.md")
    report = index(folder, enough=lambda: True)
    assert 0 < report.embedded < report.without_vector
    collection = opened()
    assert list_collections(tmp_path / "collections")[0].without_vector == report.without_vector
    # Each is found by its words; what has a vector is found by that, too, and nothing else is.
    meaning = 0
    for n in range(0, 600, 50):
        (first, *_) = collection.search([Query(f"room{n} colour{n}")])
        assert f"room{n} " in first.passage.text
        near = collection.search([Query(f"room{n} colour{n}", lexical=0.0)], k=3)
        meaning += f"room{n} " in near[0].passage.text
    assert meaning < 12
    only = collection.search([Query("lamp", lexical=0.0)], k=600, depth=600)
    assert len(only) == report.embedded
    assert collection.search([Query("lamp", lexical=0.0)], where={"document_id": "another.md"}) == []
    # The vectors of passages that have none yet are made where somebody asks for them.
    ids = [passage.id for passage in collection.passages("lamps.md")]
    texts = [passage.indexed_text for passage in collection.passages("lamps.md")]
    assert np.allclose(collection.passage_vectors(ids), words.encode(texts), atol=1e-6)


def test_the_next_run_embeds_the_rest_alone(
    index: Index, opened: Callable[[], Collection], tmp_path: Path, words: WordEncoder
) -> None:
    folder, root = tmp_path / "large", tmp_path / "collections"
    folder.mkdir()
    many(folder / "lamps.md")
    first = index(folder, enough=lambda: True)
    # A part: two batches more, then a stop that loses nothing.
    calls = iter([False, True])
    second = index_documents(root, "docs", (), words, enough=lambda: next(calls))
    assert second.embedded == 2 * first.embedded
    with pytest.raises(IndexingCancelled):
        index_documents(root, "docs", (), words, cancelled=iter([False] * 3 + [True] * 9).__next__)
    words.encoded.clear()
    last = index(folder)
    assert statuses(last) == {"lamps.md": "unchanged"}
    assert last.without_vector == 0
    assert last.embedded == len(words.encoded) < second.without_vector
    collection = opened()
    assert all(
        f"room{n} " in collection.search([Query(f"room{n} colour{n}", lexical=0.0)], k=1)[0].passage.text
        for n in range(0, 600, 50)
    )
    assert index(folder).version == last.version, "there is nothing left to do"


@pytest.mark.parametrize("store", ["exact", "quantised"])
def test_deleting_does_not_wait_for_embedding(tmp_path: Path, words: WordEncoder, store: str) -> None:
    folder, root = tmp_path / "large", tmp_path / "collections"
    folder.mkdir()
    many(folder / "lamps.md")
    many(folder / "others.md", 3)
    spec = StoreSpec(store)
    index_paths(root, "docs", [folder], words, store=spec, enough=lambda: True)
    report = delete_documents(root, "docs", ["others.md"], words, store=spec)
    assert report.without_vector > 500
    assert list_collections(root)[0].without_vector == report.without_vector


def test_an_indexed_file_deleted_while_indexing_is_deleted(
    index: Index, opened: Callable[[], Collection], folder: Path
) -> None:
    index(folder)
    everything = list(folder.iterdir())

    def remove(step: IndexProgress) -> None:
        if step.stage == "reading" and step.done == sorted(path.name for path in everything).index("licence.md"):
            (folder / "licence.md").unlink(missing_ok=True)

    report = index(folder, progress=remove)
    assert [status.status for status in report.files if status.document_id == "licence.md"][-1] == "deleted"
    assert len(opened().documents()) == 4


def test_ctrl_c_loses_no_vector(index: Index, opened: Callable[[], Collection], folder: Path) -> None:
    for number in range(100):
        (folder / f"page{number:03}.md").write_text(f"# Page {number}\n\nAbout subject {number}.\n", "utf-8")

    class Interrupted(WordEncoder):
        def encode(self, texts):  # type: ignore[no-untyped-def]
            if self.calls == 2:
                raise KeyboardInterrupt
            return super().encode(texts)

    root = folder.parent / "collections"
    with pytest.raises(KeyboardInterrupt):
        index_paths(root, "docs", [folder], Interrupted())
    assert not list((root / "docs" / "versions").iterdir())
    assert index(folder).embedded == 105 - 64
    assert len(opened().documents()) == 105
