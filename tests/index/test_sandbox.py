"""Parsing in another process: limits hold, the queue goes on, and nothing of a killed parser stays."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from index.errors import IndexingCancelled, LoadError, ParserKilled
from index.indexer import IndexReport, index_paths
from index.loaders import load
from index.loaders.sandbox import Limits, ParserPool
from tests.encoder import WordEncoder
from tests.index.hostile_files import HOSTILE, SMALL_MB, inline_markup, many_numbers

# Far more than any honest file here takes, and far less than the hostile ones.
SMALL = Limits(seconds=6.0, memory_mb=700)
NARROW = Limits(seconds=170.0, memory_mb=300)
SLOW = inline_markup(4_000_000)


@pytest.fixture
def pool() -> Iterator[ParserPool]:
    with closing(ParserPool(NARROW)) as made:
        yield made


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    path.write_text("---\ntitle: Leave\ncount: 3\n---\n# Length\n\nTen weeks, ünd é more.\n", "utf-8")
    return path


@pytest.fixture
def workers() -> Callable[[], list[psutil.Process]]:
    """The parsers that were started since the test began; those of the process's own pool stay."""
    before = {child.pid for child in psutil.Process().children()}

    def new() -> list[psutil.Process]:
        return [
            child
            for child in psutil.Process().children()
            if child.pid not in before and "index.loaders.sandbox" in " ".join(child.cmdline())
        ]

    return new


Workers = Callable[[], list[psutil.Process]]


def test_documents_come_back_as_they_are_loaded_here(pool: ParserPool, page: Path, tmp_path: Path) -> None:
    assert pool.parse(page, "a/page.md", 64).documents == load(page, "a/page.md")
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"_id": "1", "text": "One.", "metadata": {"year": 2020}}\n{"_id": "2", "text": 3}\n', "utf-8")
    warnings: list[str] = []
    parsed = pool.parse(corpus, "corpus.jsonl", 64)
    assert parsed.documents == load(corpus, "corpus.jsonl", warn=warnings.append)
    assert parsed.warnings == warnings
    assert len(warnings) == 1


def test_a_broken_file_is_explained_as_here(pool: ParserPool, tmp_path: Path) -> None:
    path = tmp_path / "broken.pdf"
    path.write_bytes(b"%PDF-1.7 nothing")
    with pytest.raises(LoadError) as here:
        load(path, "broken.pdf")
    with pytest.raises(LoadError) as there:
        pool.parse(path, "broken.pdf", 64)
    assert str(there.value) == str(here.value)
    assert not isinstance(there.value, ParserKilled)


def test_a_worker_reads_one_file_after_the_other(pool: ParserPool, page: Path, workers: Workers) -> None:
    pool.parse(page, "1", 64)
    (first,) = workers()
    pool.parse(page, "2", 64)
    assert [worker.pid for worker in workers()] == [first.pid]


@pytest.mark.extended
@pytest.mark.parametrize(
    ("name", "data", "limits", "why"),
    [
        ("s.rst", SLOW, SMALL, "6 seconds"),
        ("s.jsonl", many_numbers(), NARROW, "300 MiB of memory"),
    ],
)
def test_a_file_that_takes_too_much_is_given_up_and_the_next_one_read(
    page: Path, tmp_path: Path, workers: Workers, name: str, data: bytes, limits: Limits, why: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with closing(ParserPool(limits)) as pool:
        pool.parse(page, "before", 64)
        with pytest.raises(ParserKilled, match=f"{name} was given up: reading it takes more than {why}"):
            pool.parse(path, name, 64)
        assert pool.parse(page, "after", 64).documents[0].title == "Leave"
        assert len(workers()) == 1


def test_asking_for_the_end_kills_the_parser_at_once(tmp_path: Path, workers: Workers) -> None:
    path = tmp_path / "slow.rst"
    path.write_bytes(SLOW)
    asked = iter([False] * 5)
    with closing(ParserPool(Limits(seconds=170))) as pool, pytest.raises(IndexingCancelled):
        pool.parse(path, "slow.rst", 64, lambda: next(asked, True))
    assert workers() == []


@pytest.mark.parametrize(
    "attempt",
    [
        "import socket; socket.create_connection(('127.0.0.1', 9))",
        "import socket; socket.getaddrinfo('example.org', 80)",
        "import subprocess; subprocess.run(['true'])",
        "import os; os.system('true')",
        "open('written', 'w').write('x' * 100_000)",
    ],
)
def test_a_parser_has_no_network_no_processes_and_writes_nothing(attempt: str, tmp_path: Path) -> None:
    program = f"from index.loaders.sandbox import _confine, Limits; _confine(Limits()); {attempt}; print('done')"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, env=_paths())
    assert "done" not in done.stdout
    assert not (tmp_path / "written").exists() or not (tmp_path / "written").read_text()


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="shows a process's environment on Linux only")
def test_a_parser_inherits_no_keys_and_no_settings(
    pool: ParserPool, page: Path, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"}
    for name, value in {
        **kept,
        "OPENAI_API_KEY": "hunter2",
        "ANAPHORA_LLM__KEY": "hunter2",
        "AWS_X": "hunter2",
    }.items():
        monkeypatch.setenv(name, value)
    assert pool.parse(page, "page.md", 64).documents
    (worker,) = workers()
    environment = worker.environ()
    assert "hunter2" not in str(environment)
    assert kept.items() <= environment.items()


def _paths() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def run(folder: Path, tmp_path: Path, retry: tuple[Path, ...] = ()) -> IndexReport:
    return index_paths(tmp_path / "collections", "docs", [folder], WordEncoder(), limits=NARROW, retry=retry)


def status(report: IndexReport, name: str) -> tuple[str, str]:
    (found,) = (file for file in report.files if file.document_id == name)
    return found.status, found.message


def test_a_hostile_file_is_quarantined_until_it_changes_or_somebody_asks(page: Path, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    page.rename(folder / "page.md")
    hostile = folder / "corpus.jsonl"
    hostile.write_bytes(many_numbers())
    first = run(folder, tmp_path)
    assert status(first, "page.md")[0] == "indexed"
    state, message = status(first, "corpus.jsonl")
    assert state == "failed"
    assert "was given up" in message
    assert "left alone until it changes" in message
    # Within these limits nothing can be parsed: what is said of the file now was remembered.
    again = index_paths(tmp_path / "collections", "docs", [folder], WordEncoder(), limits=Limits(0.001, 300))
    assert status(again, "corpus.jsonl") == (state, message)
    asked = index_paths(
        tmp_path / "collections", "docs", [folder], WordEncoder(), limits=Limits(0.001, 300), retry=[hostile]
    )
    assert "0.001 seconds" in status(asked, "corpus.jsonl")[1]
    (folder / "corpus.jsonl").unlink()
    (folder / "swollen.md").write_text("# Now fine\n\nWords.\n", "utf-8")
    assert status(run(folder, tmp_path), "swollen.md")[0] == "indexed"


@pytest.mark.extended
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="shows a process's greatest memory on Linux only")
@pytest.mark.parametrize("becomes", ["refused", "read", "given up"])
def test_every_hostile_file_ends_as_it_should_within_its_limits(
    tmp_path: Path, workers: Workers, page: Path, becomes: str
) -> None:
    wrong = []
    # The sooner time or memory is up, the shorter the test.
    limits = Limits(170.0, SMALL_MB) if becomes != "given up" else Limits(10.0, 200)
    with closing(ParserPool(limits)) as pool:
        for name, hostile in HOSTILE.items():
            if hostile.becomes != becomes:
                continue
            path = tmp_path / name
            path.write_bytes(hostile.make())
            pool.parse(page, "page.md", 64)
            (worker,) = workers()
            before = sum(worker.cpu_times()[:2])
            Path(f"/proc/{worker.pid}/clear_refs").write_text("5")  # its greatest memory begins anew
            try:
                text = "".join(document.text for document in pool.parse(path, name, 64).documents)
                end = "read" if text and ("Words" in text or b"Words" not in path.read_bytes()) else "lost"
            except ParserKilled:
                end = "given up"
            except LoadError:
                end = "refused"
            if end != hostile.becomes:
                wrong.append(f"{name}: {end}")
            elif end != "given up":
                seconds, peak = sum(worker.cpu_times()[:2]) - before, greatest_memory(worker)
                if seconds > hostile.seconds or peak > hostile.memory_mb:
                    wrong.append(f"{name}: {seconds:.1f} s, {peak} MiB")
    assert not wrong


def greatest_memory(process: psutil.Process) -> int:
    """MiB."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM"))


def test_hostile_links_and_devices_are_refused_or_passed_over(page: Path, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (tmp_path / "secret.md").write_text("hunter2\n", "utf-8")
    page.rename(folder / "page.md")
    (folder / "below").mkdir()
    (folder / "below" / "up").symlink_to("..")
    (folder / "itself.md").symlink_to("itself.md")
    (folder / "there.md").symlink_to("back.md")
    (folder / "back.md").symlink_to("there.md")
    (folder / "out.md").symlink_to("../secret.md")
    (folder / "zero.txt").symlink_to("/dev/zero")
    (folder / "environment.txt").symlink_to("/proc/self/environ")
    (folder / "nowhere.txt").symlink_to("/dev/fd/0")
    os.mkfifo(folder / "pipe.md")
    report = run(folder, tmp_path)
    found = {file.document_id: file.status for file in report.files}
    assert found.pop("page.md") == "indexed"
    assert set(found.values()) <= {"failed", "skipped"}
    assert "hunter2" not in str(report)
