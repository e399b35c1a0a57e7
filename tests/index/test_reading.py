"""Small files go to a parser together: what one of them does is not the others' fault."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import psutil
import pytest
from reportlab.pdfgen.canvas import Canvas

from index import change_detection
from index.errors import IndexingCancelled, LoadError
from index.indexer import index_paths
from index.loaders import load, walk
from index.loaders.sandbox import Limits, Parsed, ParserKilled, ParserPool
from testing.encoder import WordEncoder
from tests.index.hostile_files import inline_markup

SLOW = inline_markup(4_000_000)
SOMEWHAT_SLOW = inline_markup(40_000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "docs"
    made.mkdir()
    for n in range(9):
        (made / f"{n}.md").write_text(f"# Page {n}\n\nLeave lasts {n} weeks.\n", "utf-8")
    return made


@pytest.fixture
def pool(folder: Path) -> Iterator[ParserPool]:
    """With a parser that has started."""
    with ParserPool(Limits(seconds=171)) as made:
        made.parse(folder / "0.md", "0.md", 64)
        yield made


def files_of(folder: Path) -> list[tuple[Path, str]]:
    return [(source.path, source.document_id) for source in walk([folder])]


def stopped_at(*asked: Callable[[], None]) -> Callable[[], bool]:
    """Never cancelled, but now and then something happens: after a parser was at work for a while, each time."""
    turns = chain.from_iterable((*repeat(None, 3), one) for one in asked)

    def cancelled() -> bool:
        if (happens := next(turns, None)) is not None:
            happens()
        return False

    return cancelled


def kill_worker() -> None:
    (worker,) = (one for one in psutil.Process().children() if '"seconds": 171' in " ".join(one.cmdline()))
    worker.kill()


def test_small_plain_files_are_grouped_and_others_stand_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_detection, "_GROUP_FILES", 4)
    (folder / "4.md").write_bytes(b"x" * change_detection._GROUP_BYTES)
    (folder / "7.pdf").write_bytes(b"small")
    (folder / "gone.md").symlink_to("nowhere")
    groups = [[source.path.name for source in group] for group in change_detection._groups(list(walk([folder])))]
    assert groups == [
        ["0.md", "1.md", "2.md", "3.md"],
        ["4.md"],
        ["5.md", "6.md", "7.md"],
        ["7.pdf"],
        ["8.md"],
        ["gone.md"],
    ]


def test_a_group_comes_back_as_each_file_is_loaded_here(pool: ParserPool, folder: Path) -> None:
    (folder / "5.md").write_bytes(b"")
    found = pool.parse_all(files_of(folder), 64, lambda: False)
    for (path, name), one in zip(files_of(folder), found, strict=True):
        if path.name == "5.md":
            assert "is empty" in str(one)
        else:
            assert isinstance(one, Parsed)
            assert one.documents == load(path, name)


def test_of_a_group_only_the_hostile_file_is_quarantined(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_detection, "_GROUP_BYTES", 1 << 30)
    (folder / "4b.rst").write_bytes(SLOW)
    assert len(list(change_detection._groups(list(walk([folder]))))) == 1
    for seconds in (2.0, 0.9):
        report = index_paths(tmp_path / "c", "docs", [folder], WordEncoder(), limits=Limits(seconds=seconds))
        status = {file.document_id: file.status for file in report.files}
        (failed,) = (file for file in report.files if file.status == "failed")
        # The second run remembers what the first one said.
        assert failed.message.startswith("4b.rst was given up: reading it takes more than 2 seconds")
        assert status.pop("4b.rst") == "failed"
        assert set(status.values()) == {"indexed" if seconds == 2 else "unchanged"}
        assert len(status) == 9


def test_cancelling_amidst_a_group_ends_within_moments(pool: ParserPool, folder: Path) -> None:
    (folder / "4b.rst").write_bytes(SLOW)
    began: list[float] = []

    def cancelled() -> bool:
        began.append(time.monotonic())
        return len(began) > 12

    with pytest.raises(IndexingCancelled, match=r"4b\.rst"):
        pool.parse_all(files_of(folder), 64, cancelled)
    assert time.monotonic() - began[-1] < 5
    assert not pool._idle


@pytest.mark.parametrize("times", [1, 2])
def test_a_parser_killed_amidst_a_group_costs_no_other_file(pool: ParserPool, folder: Path, times: int) -> None:
    (folder / "4b.rst").write_bytes(SOMEWHAT_SLOW)
    files = files_of(folder)
    found = pool.parse_all(files, 64, stopped_at(*[kill_worker] * times))
    lost = [path.name for (path, _), one in zip(files, found, strict=True) if isinstance(one, ParserKilled)]
    # Killed once, it is tried again by a parser that has read nothing else.
    assert lost == ([] if times == 1 else ["4b.rst"])
    assert sum(isinstance(one, Parsed) for one in found) == 10 - len(lost)


def test_pdfs_are_read_again_once_text_can_be_recognised(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canvas = Canvas(str(folder / "a.pdf"))
    canvas.drawString(60, 500, "Leave lasts ten weeks.")
    canvas.save()
    read: list[str] = []
    parse_all = ParserPool.parse_all

    def counted(pool: ParserPool, files: Sequence[tuple[Path, str]], *more: Any) -> list[Parsed | LoadError]:
        read.extend(path.name for path, _ in files)
        return parse_all(pool, files, *more)

    monkeypatch.setattr(ParserPool, "parse_all", counted)
    for found, expected in ((None, 10), (None, 0), ("/usr/bin/tesseract", 1), ("/usr/bin/tesseract", 0)):
        monkeypatch.setattr(change_detection, "which", lambda _, found=found: found)
        read.clear()
        index_paths(tmp_path / "home", "docs", [folder], WordEncoder())
        assert len(read) == expected, read
