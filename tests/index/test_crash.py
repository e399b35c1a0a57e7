"""Killed writers, two writers, full disks: the last good version serves and nothing is lost."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from index.collection import Collection
from index.documents import Document, Query
from index.errors import CollectionLocked, CollectionNotFound, StorageError
from index.indexer import IndexProgress, index_documents
from index.version import CollectionFolder
from tests.encoder import WordEncoder
from tests.index.conftest import document

# Children start at once, with everything imported and no thread of ours: as cheap as a fork, as clean as a spawn.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["index.indexer", "bm25s", "Stemmer", "tests.index.conftest"])

PAGES = 120
STEPS = 2 * PAGES


def pages(edition: str, count: int = PAGES) -> list[Document]:
    return [document(f"page {number:03}", f"{edition} wording of subject {number}") for number in range(count)]


def build(root: Path, edition: str, die_after: int = -1, count: int = PAGES) -> None:
    """Index one edition, and at the given step of its progress be killed."""
    steps = 0

    def progress(_: IndexProgress) -> None:
        nonlocal steps
        if steps == die_after:
            os.kill(os.getpid(), signal.SIGKILL)
        steps += 1

    index_documents(root, "docs", pages(edition, count), WordEncoder(), progress=progress)


def start(target: object, *args: object) -> multiprocessing.process.BaseProcess:
    process = processes.Process(target=target, args=args)  # type: ignore[arg-type]
    process.start()
    return process


def editions(root: Path) -> set[str]:
    """The first words of all passages, as both rankings find them."""
    collection = Collection.open(root, "docs", WordEncoder())
    found = set()
    for query in (Query("wording", dense=0.0), Query("wording of subject", lexical=0.0)):
        hits = collection.search([query], k=1000, depth=1000)
        assert len(hits) == len(collection.documents())
        found |= {hit.passage.text.split()[0] for hit in hits}
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A collection that holds the first edition."""
    index_documents(tmp_path, "docs", pages("first"), WordEncoder())
    return tmp_path


# Reading (one step a document), embedding (one a batch and one at the end), saving (five).
@pytest.mark.parametrize(
    "step",
    [
        60,
        PAGES + 7,
        *(
            pytest.param(step, marks=pytest.mark.extended)
            for step in (0, PAGES, PAGES + 2, PAGES + 4, PAGES + 5, PAGES + 6, PAGES + 8, PAGES + 9)
        ),
    ],
)
def test_killed_at_any_step_the_last_good_version_serves_and_the_next_run_finishes(root: Path, step: int) -> None:
    process = start(build, root, "second", step)
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    assert editions(root) == {"first"}
    report = index_documents(root, "docs", pages("second"), WordEncoder())
    assert editions(root) == {"second"}
    if step > PAGES + 4:
        assert report.embedded == 0, "the killed run's vectors are kept"
    versions = CollectionFolder(root, "docs").versions
    assert len(list(versions.iterdir())) == 2, "what the killed run left is gone"


def test_killed_before_there_was_a_version_there_is_no_collection(tmp_path: Path) -> None:
    process = start(build, tmp_path, "first", PAGES + 4)
    process.join(120)
    with pytest.raises(CollectionNotFound):
        Collection.open(tmp_path, "docs", WordEncoder())
    build(tmp_path, "first")
    assert editions(tmp_path) == {"first"}


def hold(root: Path, ready: Connection) -> None:
    with CollectionFolder(root, "docs").writing():
        ready.send("writing")
        time.sleep(60)


@pytest.fixture
def other_writer(root: Path) -> Iterator[multiprocessing.process.BaseProcess]:
    """Another process that is writing to the collection."""
    ours, theirs = processes.Pipe()
    process = start(hold, root, theirs)
    theirs.close()
    assert ours.recv() == "writing"
    yield process
    process.kill()
    process.join(120)
    ours.close()


def test_a_second_indexer_is_told_who_is_writing(root: Path, other_writer: multiprocessing.process.BaseProcess) -> None:
    with pytest.raises(CollectionLocked, match=rf"by process {other_writer.pid} since \d{{4}}-"):
        index_documents(root, "docs", pages("second"), WordEncoder())
    assert editions(root) == {"first"}, "reading goes on"
    other_writer.kill()
    other_writer.join(120)
    index_documents(root, "docs", pages("second"), WordEncoder())
    assert editions(root) == {"second"}


def limited(root: Path, kib: int, answer: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (kib * 1024, kib * 1024))
    try:
        index_documents(root, "docs", pages("second", 2000), WordEncoder())
        answer.send("written")
    except StorageError as error:
        answer.send(str(error))


# What grows past the limit: the staged records, the vectors' journal.
@pytest.mark.parametrize(
    ("kib", "part"),
    [(300, "versions"), (800, "docs")],
)
def test_a_failing_write_is_a_storage_error_and_the_last_version_serves(root: Path, kib: int, part: str) -> None:
    ours, theirs = processes.Pipe()
    process = start(limited, root, kib, theirs)
    theirs.close()
    message = ours.recv()
    ours.close()
    process.join(120)
    assert process.exitcode == 0
    assert "the last good version still serves" in message
    assert part in message
    assert editions(root) == {"first"}
    index_documents(root, "docs", pages("second"), WordEncoder())
    assert editions(root) == {"second"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root and the right to mount")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_full_disk_is_a_storage_error_and_the_last_version_serves(small_disk: Path) -> None:
    index_documents(small_disk, "docs", pages("first"), WordEncoder())
    with pytest.raises(StorageError, match="the last good version still serves"):
        index_documents(small_disk, "docs", pages("second", 1500), WordEncoder())
    assert editions(small_disk) == {"first"}
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    report = index_documents(small_disk, "docs", pages("second", 1500), WordEncoder())
    assert report.embedded < 1500, "the vectors of the failed run were kept"
    assert len(Collection.open(small_disk, "docs", WordEncoder()).documents()) == 1500


@pytest.mark.extended
def test_killed_at_random_moments_a_reader_sees_one_edition_or_the_other(root: Path) -> None:
    choose = random.Random(3)
    began = time.monotonic()
    build(root, "second")
    whole = time.monotonic() - began
    current = {"second"}
    for number in range(8):
        edition = f"edition{number}"
        process = start(build, root, edition)
        time.sleep(choose.uniform(0.1, 1.1) * whole)
        process.kill()
        process.join(120)
        served = editions(root)
        assert served in (current, {edition})
        current = served
    build(root, "last")
    assert editions(root) == {"last"}
