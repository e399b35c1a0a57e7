"""Files are read one by one: what one of them does is not the others' fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import psutil
import pytest
from reportlab.pdfgen.canvas import Canvas

from index import indexer
from index.errors import ParserKilled
from index.indexer import index_paths
from index.loaders.sandbox import Limits, Parsed, ParserPool
from tests.encoder import WordEncoder
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
    with closing(ParserPool(Limits(seconds=171))) as made:
        made.parse(folder / "0.md", "0.md", 64)
        yield made


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


def test_of_many_files_only_the_hostile_one_is_quarantined(folder: Path, tmp_path: Path) -> None:
    (folder / "4b.rst").write_bytes(SLOW)
    for seconds in (2.0, 0.9):
        report = index_paths(tmp_path / "c", "docs", [folder], WordEncoder(), limits=Limits(seconds=seconds))
        status = {file.document_id: file.status for file in report.files}
        (failed,) = (file for file in report.files if file.status == "failed")
        # The second run remembers what the first one said.
        assert failed.message.startswith("4b.rst was given up: reading it takes more than 2 seconds")
        assert status.pop("4b.rst") == "failed"
        assert set(status.values()) == {"indexed" if seconds == 2 else "unchanged"}
        assert len(status) == 9


@pytest.mark.extended
@pytest.mark.parametrize("times", [1, 2])
def test_a_parser_killed_over_a_file_is_tried_once_more(pool: ParserPool, folder: Path, times: int) -> None:
    path = folder / "4b.rst"
    path.write_bytes(SOMEWHAT_SLOW)
    cancelled = stopped_at(*[kill_worker] * times)
    if times == 1:
        assert pool.parse(path, "4b.rst", 64, cancelled).documents
    else:
        with pytest.raises(ParserKilled):
            pool.parse(path, "4b.rst", 64, cancelled)
    assert pool.parse(folder / "5.md", "5.md", 64).documents


def test_pdfs_are_read_again_once_text_can_be_recognised(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canvas = Canvas(str(folder / "a.pdf"))
    canvas.drawString(60, 500, "Leave lasts ten weeks.")
    canvas.save()
    read: list[str] = []
    parse = ParserPool.parse

    def counted(pool: ParserPool, path: Path, *more: Any) -> Parsed:
        read.append(path.name)
        return parse(pool, path, *more)

    monkeypatch.setattr(ParserPool, "parse", counted)
    installed = (
        ("", 10), ("", 0), ("rapidocr", 1), ("rapidocr", 0), ("/usr/bin/tesseract", 1), ("/usr/bin/tesseract", 0),
    )  # fmt: skip
    for found, expected in installed:
        monkeypatch.setattr(indexer, "find_recogniser", lambda found=found: found)
        read.clear()
        index_paths(tmp_path / "home", "docs", [folder], WordEncoder())
        assert len(read) == expected, read
